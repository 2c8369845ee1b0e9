"""The homonym test: is an occurrence of a word nearer to others of its sense than to the other one?

An occurrence counts as right if its mean cosine with the others of its sense is higher than with
those of the other sense (after Peters et al., 2018, section 5.3). Chance is 50 %. With the cosines
of the centroids it would be less: the occurrence's own sense has one vector fewer, and the mean of
fewer vectors is farther from what all vectors share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from models.arrays import Float32Array
from tasks.embeddings.evaluation.nearest_neighbors import (
    COSINE_TOLERANCE,
    Neighbours,
    known_vectors,
    unit,
)
from tasks.embeddings.evaluation.published_tests import Accuracy
from tasks.text.tokenizer import tokenize

HOMONYMS = Path(__file__).with_name("homonyms.txt")
MEAN_OF_CONTEXT = "mean of context"


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence, and its sense there."""

    word: str
    sense: str
    sentence: list[str]  # tokens
    position: int  # of the word among them


def read_homonyms(file: Path) -> list[Occurrence]:
    """The sentences of the list, in its order: those of a word's senses follow one another."""
    occurrences: list[Occurrence] = []
    word = sense = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            word, sense = line.strip("[]").split(": ")
        elif line and not line.startswith("#"):
            sentence = tokens_of(line)
            occurrences.append(Occurrence(word, sense, sentence, position_of(word, sentence)))
    return occurrences


def tokens_of(sentence: str) -> list[str]:
    """The tokens of a sentence."""
    return [sentence[start:end] for start, end in tokenize(sentence)]


def position_of(word: str, sentence: Sequence[str]) -> int:
    """The position of a word's first occurrence in any case. Raises ValueError if there is none."""
    return [token.lower() for token in sentence].index(word.lower())


def split_query(query: str) -> tuple[str, list[str]]:
    """The word and the tokens of the sentence of a query such as "club: He swung the club."."""
    word, _, sentence = query.partition(":")
    return word.strip(), tokens_of(sentence)


def sense_accuracy(
    occurrences: Sequence[Occurrence], vectors: Sequence[Float32Array | None]
) -> Accuracy:
    """The share of occurrences that are nearer to their own sense; a tie counts as half.

    `vectors` are those of the occurrences, None for those without one.
    """
    right = list(_comparisons(occurrences, vectors))
    return Accuracy(
        accuracy=sum(right) / len(right) if right else None,
        questions=len(occurrences),
        covered=len(right) / len(occurrences),
    )


def _comparisons(
    occurrences: Sequence[Occurrence], vectors: Sequence[Float32Array | None]
) -> Iterator[float]:
    """Yield 1, 0.5 or 0 for each occurrence with a vector whose two senses have others."""
    pairs = zip(occurrences, vectors, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].word):
        known = [(o.sense, unit(vector)) for o, vector in group if vector is not None]
        for number, (sense, vector) in enumerate(known):
            others = known[:number] + known[number + 1 :]
            own = [v for s, v in others if s == sense]
            other = [v for s, v in others if s != sense]
            if own and other:
                nearer = vector @ np.mean(own, axis=0) - vector @ np.mean(other, axis=0)
                yield 0.5 if abs(nearer) < COSINE_TOLERANCE else float(nearer > 0)


def mean_of_context(space: Neighbours, occurrence: Occurrence) -> Float32Array | None:
    """The mean of the unit vectors of the other words of the sentence; None if none is known.

    A static set has one vector per word, so only the words around it can tell its sense.
    """
    others = [t for i, t in enumerate(occurrence.sentence) if i != occurrence.position]
    vectors = known_vectors(space, others)
    return vectors.mean(axis=0) if len(vectors) else None
