"""Nearest neighbours and analogies, by one matrix product over all words of a set."""

from collections.abc import Iterable, Sequence

import numpy as np

from infra.errors import UserError
from models.arrays import Float32Array
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.text.vocabulary import case_key

ScoredWords = list[tuple[str, float]]
COSINE_TOLERANCE = 1e-6
"""Smaller differences between cosines are float32 rounding errors."""


class Neighbours:
    """The vectors of a set, (words, d), normalised to unit length so that products are cosines.

    A word is looked up unchanged, then in lower case. An OOV word is composed from n-grams if the
    set has them; `lower_case` says whether it is lower-cased first.
    """

    def __init__(self, word_set: WordSet, lower_case: bool = True) -> None:
        self.words, self.rows, self.subwords = word_set.words, word_set.rows, word_set.subwords
        self.lower_case = lower_case
        self.unit = unit(word_set.vectors)

    def row(self, word: str) -> int | None:
        """The word's row; None if the set lacks the word."""
        row = self.rows.get(word)
        return self.rows.get(word.lower()) if row is None else row

    def vector(self, word: str) -> Float32Array | None:
        """The word's unit vector (d,); None if the word has no vector or a zero one."""
        row = self.row(word)
        if row is not None:
            vector: Float32Array = self.unit[row]
        elif self.subwords is not None:
            vector = unit(self.subwords.vector(case_key(word, self.lower_case))[None])[0]
        else:
            return None
        return vector if vector.any() else None

    def require(self, word: str) -> Float32Array:
        """The word's unit vector (d,). Raises UserError if there is none."""
        vector = self.vector(word)
        if vector is None:
            raise UserError(f"The set has no vector for {word!r}; choose another word.")
        return vector

    def nearest(self, vector: Float32Array, count: int, exclude: Iterable[str] = ()) -> ScoredWords:
        """The `count` words with the highest cosine to a vector (d,), with their cosines.

        Words in `exclude` are left out.
        """
        cosines = self.unit @ (vector / max(float(np.linalg.norm(vector)), 1e-12))
        excluded = [row for row in map(self.row, exclude) if row is not None]
        cosines[excluded] = -np.inf
        count = min(count, len(cosines) - len(set(excluded)))
        best = np.argpartition(-cosines, max(count - 1, 0))[:count]
        best = best[np.argsort(-cosines[best], kind="stable")]
        return [(self.words[i], float(cosines[i])) for i in best]

    def neighbours(self, word: str, count: int = 10) -> ScoredWords:
        """The words nearest to a word, without the word itself."""
        return self.nearest(self.require(word), count, [word])

    def analogy(self, a: str, b: str, c: str, count: int = 5) -> ScoredWords:
        """Words that are to `c` as `b` is to `a`, by 3CosAdd (Mikolov et al., 2013).

        The three given words are excluded.
        """
        vector = self.require(b) - self.require(a) + self.require(c)
        return self.nearest(vector, count, [a, b, c])


def unit(vectors: Float32Array) -> Float32Array:
    """Rows normalised to unit length; a row of zeros stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def mean_cosines(left: Float32Array, right: Float32Array) -> Float32Array:
    """(n,) mean cosine of each row of `left` (n, d) with the rows of `right` (m, d)."""
    return np.asarray((left @ right.T).mean(axis=1))


def known_vectors(space: Neighbours, words: Sequence[str]) -> Float32Array:
    """(k, d) unit vectors of the k words that have one."""
    vectors = [vector for vector in map(space.vector, words) if vector is not None]
    return np.stack(vectors) if vectors else np.empty((0, space.unit.shape[1]), np.float32)
