"""A map of words: the two directions in which their vectors differ most (PCA)."""

import re
from collections.abc import Sequence

import numpy as np

from tasks.embeddings.evaluation.nearest_neighbors import Neighbours, vectors_of

MAP_WORDS = 400
SKIPPED = 100  # the very first words of a set are "the", "of" and marks
WORD = re.compile(r"[^\W\d_]{3,}")

Point = tuple[str, float, float]


def map_words(space: Neighbours, asked: Sequence[str], count: int = MAP_WORDS) -> list[str]:
    """The words asked for, their neighbours, and frequent ones: `count` at most."""
    known = [word for word in asked if space.vector(word) is not None]
    near = [neighbour for word in known for neighbour, _ in space.neighbours(word)]
    frequent = [word for word in space.words[SKIPPED:] if WORD.fullmatch(word)][:count]
    placed = [word for word in (*known, *near, *frequent) if space.vector(word) is not None]
    return list(dict.fromkeys(placed))[:count]


def project(space: Neighbours, words: Sequence[str]) -> list[Point]:
    """Each word's place, both coordinates between 0 and 1."""
    if len(words) < 3:
        return []
    vectors = vectors_of(space, words)
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    places = np.pad(centred @ directions[:2].T, ((0, 0), (0, max(0, 2 - len(directions)))))
    low, high = places.min(axis=0), places.max(axis=0)
    places = (places - low) / np.maximum(high - low, 1e-12)
    return [(w, float(x), float(y)) for w, (x, y) in zip(words, places.tolist(), strict=True)]
