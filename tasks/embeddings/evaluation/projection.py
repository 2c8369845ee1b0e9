"""A 2-D map of words: the first two principal components of their vectors (PCA)."""

import re
from collections.abc import Sequence

import numpy as np

from tasks.embeddings.evaluation.nearest_neighbors import Neighbours, known_vectors

MAP_WORDS = 400
SKIPPED = 100  # the most frequent words of a set are function words and punctuation
WORD = re.compile(r"[^\W\d_]{3,}")

Point = tuple[str, float, float]


def map_words(space: Neighbours, requested: Sequence[str], count: int = MAP_WORDS) -> list[str]:
    """The requested words, their neighbours, and frequent words: at most `count` in total."""
    known = [word for word in requested if space.vector(word) is not None]
    neighbours = [neighbour for word in known for neighbour, _ in space.neighbours(word)]
    frequent = [word for word in space.words[SKIPPED:] if WORD.fullmatch(word)][:count]
    mappable = [word for word in (*known, *neighbours, *frequent) if space.vector(word) is not None]
    return list(dict.fromkeys(mappable))[:count]


def project(space: Neighbours, words: Sequence[str]) -> list[Point]:
    """Each word with its x and y, both scaled to 0 to 1; empty for fewer than three words."""
    if len(words) < 3:
        return []
    vectors = known_vectors(space, words)
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    coordinates = np.pad(centred @ directions[:2].T, ((0, 0), (0, max(0, 2 - len(directions)))))
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    coordinates = (coordinates - low) / np.maximum(high - low, 1e-12)
    return [(w, float(x), float(y)) for w, (x, y) in zip(words, coordinates.tolist(), strict=True)]
