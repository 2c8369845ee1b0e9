"""The embedding matrix: one vector for each word of a vocabulary."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from models.arrays import Float32Array, FloatArray
from tasks.embeddings.formats.store import read_vectors
from tasks.text.vocabulary import SPECIAL

if TYPE_CHECKING:
    from models.configs.variant import UnknownWords


def load_word_vectors(
    vocabulary: Path, vectors: Path, unknown_words: "UnknownWords" = "zero", seed: int = 0
) -> Float32Array:
    """One vector per row of words.parquet, (V, d); zero for row 0 and for OOV words.

    With "subword", OOV words get the vectors that were composed from n-grams. With "random", row 1
    and each OOV word get a random vector of their own, with the standard deviation of the set's
    vectors. Apart from this scale, a word's random vector is the same in every vocabulary.
    """
    words = pq.read_table(vocabulary / "words.parquet", columns=["word"])["word"]
    known, rows = read_vectors(vectors, composed=unknown_words == "subword")
    positions = pc.index_in(words.combine_chunks()[len(SPECIAL) :], value_set=known)
    matrix = np.zeros((len(words), rows.shape[1]), dtype=np.float32)
    index = np.flatnonzero(positions.is_valid().to_numpy(False))
    matrix[index + len(SPECIAL)] = rows[positions.drop_null().to_numpy()]
    if unknown_words == "random":
        scale = rows.std() if rows.size else 1.0
        for row in np.flatnonzero(~matrix.any(axis=1))[1:]:
            matrix[row] = scale * _random_vector(words[int(row)].as_py(), rows.shape[1], seed)
    return matrix


def _random_vector(word: str, size: int, seed: int) -> FloatArray:
    """A word's random vector (size,); depends on the word and the seed only."""
    digest = hashlib.sha256(word.encode()).digest()
    return np.random.default_rng([seed, *digest]).standard_normal(size)
