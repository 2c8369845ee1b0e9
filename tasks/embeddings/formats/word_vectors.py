"""A set of word vectors in memory, and fastText's n-grams, which compose vectors of any word."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from models.arrays import Float32Array

# safetensors is imported locally, because only sets with n-grams need it.


# File of a set's n-grams, beside its Parquet file.
SUBWORDS = "subwords.safetensors"

# The largest error of a vector in float16, as a share of its length. Only values below float16's
# normal range (6e-5) or above its largest number (65,504) have larger errors than 2^-11.
FLOAT16_ERROR = 1e-3


@dataclass(frozen=True)
class Subwords:
    """Vectors of hashed character n-grams (Bojanowski et al., 2017, section 3.2)."""

    ngrams: Float32Array  # (buckets, d)
    min_ngram: int
    max_ngram: int

    @property
    def ngram_settings(self) -> tuple[int, int, int]:
        """Bucket count, shortest and longest n-gram; equal for sets with compatible n-grams."""
        return len(self.ngrams), self.min_ngram, self.max_ngram

    def buckets(self, word: str) -> list[int]:
        """The row of each n-gram of "<word>"."""
        return [h % len(self.ngrams) for h in hashes(word, self.min_ngram, self.max_ngram)]

    def vector(self, word: str) -> Float32Array:
        """(d,) mean of the vectors of a word's n-grams; zero if it is too short to have any."""
        rows = self.buckets(word)
        return np.asarray(self.ngrams[rows].sum(axis=0) / max(len(rows), 1), np.float32)

    def vectors(self, words: Iterable[str]) -> Float32Array:
        """(words, d) vectors composed from n-grams."""
        rows = [self.vector(word) for word in words]
        return np.array(rows, np.float32).reshape(-1, self.ngrams.shape[1])

    def save(self, folder: Path) -> None:
        """Write subwords.safetensors."""
        from safetensors.numpy import save_file

        # A single metadata entry: safetensors writes several entries in no fixed order.
        lengths = {"ngram_lengths": json.dumps([self.min_ngram, self.max_ngram])}
        save_file({"ngrams": np.ascontiguousarray(self.ngrams)}, folder / SUBWORDS, lengths)

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """The n-grams that `save` wrote to `folder`; None if there is no such file."""
        from safetensors import safe_open

        if not (folder / SUBWORDS).exists():
            return None
        with safe_open(folder / SUBWORDS, framework="np") as file:
            shortest, longest = json.loads(file.metadata()["ngram_lengths"])
            return cls(file.get_tensor("ngrams"), shortest, longest)


def in_half_precision(vectors: Float32Array) -> Float32Array:
    """The vectors (n, d) rounded to float16, as models store them; or unchanged, if that would
    change one by more than `FLOAT16_ERROR`.

    Sets are rounded when they are selected, so that training, evaluation and service compute with
    the same numbers.
    """
    with np.errstate(over="ignore"):
        rounded = vectors.astype(np.float16).astype(np.float32)
    if not np.isfinite(rounded).all():
        return vectors
    errors, lengths = (np.linalg.norm(rows, axis=1) for rows in (rounded - vectors, vectors))
    return rounded if (errors <= FLOAT16_ERROR * lengths).all() else vectors


def own_row(vector: Float32Array, ngrams: Float32Array) -> Float32Array:
    """A word's own row (d,), computed from its vector (d,), which is the mean of the own row and of
    the vectors of its n-grams (n, d)."""
    return np.asarray(vector * (len(ngrams) + 1) - ngrams.sum(axis=0), np.float32)


def hashes(word: str, min_ngram: int, max_ngram: int) -> list[int]:
    """FNV-1a hashes of the UTF-8 bytes of each n-gram of "<word>", in fastText's order.

    Bytes are treated as signed, as in fastText.
    """
    return [_fnv_1a(ngram.encode()) for ngram in ngrams_of(word, min_ngram, max_ngram)]


def ngrams_of(word: str, min_ngram: int, max_ngram: int) -> list[str]:
    """The n-grams of "<word>", in fastText's order.

    fastText's quirks are reproduced: "<" and ">" alone are no n-grams, and n-grams are never empty.
    """
    text = f"<{word}>"
    return [
        text[start : start + length]
        for start in range(len(text))
        for length in range(max(min_ngram, 1), min(max_ngram, len(text) - start) + 1)
        if length > 1 or 0 < start < len(text) - 1
    ]


def _fnv_1a(data: bytes) -> int:
    value = 2166136261
    for byte in data:
        signed = byte | 0xFFFFFF00 if byte > 127 else byte
        value = (value ^ signed) * 16777619 & 0xFFFFFFFF
    return value


@dataclass(frozen=True)
class WordSet:
    """Words and their vectors, one per row."""

    words: list[str]
    vectors: Float32Array  # (words, d)
    subwords: Subwords | None = None

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}
