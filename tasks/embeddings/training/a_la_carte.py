"""Induces vectors of new words from their contexts, in the space of a given set.

Khodak et al. (2018), "A la carte embedding: cheap but effective induction of semantic feature
vectors", eq. 3 and 4: a linear map from the mean vector of a word's contexts to its own vector,
fitted by least squares on frequent words that have one, and applied to words that have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import njit

from infra.progress_reporter import ProgressReporter
from models.arrays import Float32Array, FloatArray
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.cooccurrence import END_OF_LINE, Ids, row_blocks

ANCHORS = 50_000  # at most this many frequent words fit the map


@dataclass(frozen=True)
class Contexts:
    """The sums of the vectors around all occurrences of some words."""

    sums: FloatArray  # (words, d)
    tokens: FloatArray  # (words,) tokens with a vector that were summed

    @property
    def means(self) -> FloatArray:
        """(words, d) mean context vectors; zero for words without any context."""
        return np.asarray(self.sums / np.maximum(self.tokens, 1)[:, None])


def sum_contexts(
    corpus: Path, tokens: int, words: Sequence[str], base: WordSet, wanted: Ids, window: int
) -> Contexts:
    """The contexts of the words `words[wanted]` in a prepared corpus of so many `tokens`.

    A context is the tokens up to `window` places away in the same line. Tokens outside `words` are
    removed before places are counted, as in GloVe's training; those without a vector add nothing.
    """
    dimension = base.vectors.shape[1]
    # The last column counts the tokens that have a vector.
    vectors = np.zeros((len(words), dimension + 1), np.float32)
    known = [(row, base.rows[word]) for row, word in enumerate(words) if word in base.rows]
    rows, base_rows = np.array(known, np.int64).reshape(-1, 2).T
    vectors[rows, :-1], vectors[rows, -1] = base.vectors[base_rows], 1
    place = np.full(len(words), -1, np.int32)
    place[wanted] = np.arange(len(wanted))
    sums = np.zeros((len(wanted), dimension + 1))
    done = 0
    with ProgressReporter("contexts", tokens, "words") as progress:
        for ids in row_blocks(corpus / "corpus.txt", {word: row for row, word in enumerate(words)}):
            add_contexts(ids, window, vectors, place, sums)
            done += int(np.count_nonzero(ids != END_OF_LINE))
            progress.report(done)
    return Contexts(sums[:, :-1], sums[:, -1])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_contexts(
    ids: Ids,
    window: int,
    vectors: Float32Array,
    place: npt.NDArray[np.int32],
    sums: FloatArray,
) -> None:
    """Add the vectors around each position of `ids` to the row `place[ids[position]]` of `sums`.

    The sum over a window moves along the line, so the cost does not depend on its size.
    """
    size = vectors.shape[1]
    around = np.zeros(size)
    first = 0
    while first < len(ids):
        last = first
        while last < len(ids) and ids[last] != END_OF_LINE:
            last += 1
        around[:] = 0
        for position in range(first, min(first + window, last)):
            for k in range(size):
                around[k] += vectors[ids[position], k]
        for position in range(first, last):
            word, entering, leaving = ids[position], position + window, position - window - 1
            if entering < last:
                for k in range(size):
                    around[k] += vectors[ids[entering], k]
            if leaving >= first:
                for k in range(size):
                    around[k] -= vectors[ids[leaving], k]
            row = place[word]
            if row >= 0:
                for k in range(size):
                    sums[row, k] += around[k] - vectors[word, k]
        first = last + 1


def fit_map(means: FloatArray, vectors: Float32Array, counts: FloatArray) -> FloatArray:
    """The matrix (d, d) that maps mean context vectors (n, d) to the words' vectors (n, d).

    Least squares with the logarithms of the words' counts (n,) as weights.
    """
    weighted = means * np.log(counts)[:, None]
    matrix, *_ = np.linalg.lstsq(weighted.T @ means, weighted.T @ vectors)
    return np.asarray(matrix)
