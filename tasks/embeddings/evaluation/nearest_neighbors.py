"""Nearest neighbours and analogies of a set of word vectors."""

from collections.abc import Sequence

import numpy as np

from infra.errors import UserError
from models.arrays import Float32Array
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.text.vocabulary import case_key, query_word

# gensim is imported locally, because it takes seconds to load.

ScoredWords = list[tuple[str, float]]
# Smaller differences between cosines are float32 rounding errors.
COSINE_TOLERANCE = 1e-6
# Shorter vectors are divided by this length, so that a zero vector stays zero.
SHORTEST = 1e-12


def unit(vectors: Float32Array) -> Float32Array:
    """Vectors (…, d) divided by their lengths; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    out: Float32Array = vectors / np.maximum(lengths, SHORTEST)
    return out


class Neighbours:
    """The words of a set, and their vectors in gensim's `KeyedVectors`, with their lengths.

    A word is looked up unchanged, then in lower case. An OOV word is composed from n-grams if the
    set has them; `lower_case` says whether it is lower-cased first.
    """

    def __init__(self, word_set: WordSet, lower_case: bool = True) -> None:
        from gensim.models import KeyedVectors

        self.words, self.rows, self.subwords = word_set.words, word_set.rows, word_set.subwords
        self.lower_case = lower_case
        self.keyed = KeyedVectors(word_set.vectors.shape[1])
        # Not by `add_vectors` and `fill_norms`: the former copies, the latter divides by zero.
        self.keyed.index_to_key, self.keyed.key_to_index = self.words, self.rows
        self.keyed.vectors = word_set.vectors
        self.keyed.norms = np.maximum(np.linalg.norm(word_set.vectors, axis=1), SHORTEST)

    def row(self, word: str) -> int | None:
        """The word's row; None if the set lacks the word."""
        return self.rows.get(query_word(word, self.rows))

    def vector(self, word: str) -> Float32Array | None:
        """The word's unit vector (d,); None if the word has no vector or a zero one."""
        row = self.row(word)
        if row is not None:
            vector: Float32Array = self.keyed.get_vector(row, norm=True)
        elif self.subwords is not None:
            vector = self.subwords.vector(case_key(word, self.lower_case))
            vector = unit(vector)
        else:
            return None
        return vector if vector.any() else None

    def neighbours(self, word: str, count: int = 10) -> ScoredWords:
        """The words nearest to a word, without the word itself, with their cosines.

        Raises UserError if the word has no vector.
        """
        return self._nearest([word], [], count)

    def analogy(self, a: str, b: str, c: str, count: int = 5) -> ScoredWords:
        """Words that are to `c` as `b` is to `a`, by 3CosAdd (Mikolov et al., 2013).

        The three given words are excluded. Raises UserError if one of them has no vector.
        """
        return self._nearest([b, c], [a], count)

    def _nearest(self, added: Sequence[str], subtracted: Sequence[str], count: int) -> ScoredWords:
        positive, negative = ([self._key(word) for word in words] for words in (added, subtracted))
        nearest: ScoredWords = self.keyed.most_similar(positive, negative, topn=count)
        return nearest

    def _key(self, word: str) -> int | Float32Array:
        """The word's row, which gensim excludes from its answers, or its composed vector (d,)."""
        vector, row = self.vector(word), self.row(word)
        if vector is None:
            raise UserError(f"The set has no vector for {word!r}; choose another word.")
        return vector if row is None else row


def known_vectors(space: Neighbours, words: Sequence[str]) -> Float32Array:
    """(k, d) unit vectors of the k words that have one."""
    vectors = [vector for vector in map(space.vector, words) if vector is not None]
    return np.stack(vectors) if vectors else np.empty((0, space.keyed.vector_size), np.float32)
