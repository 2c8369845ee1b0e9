"""Reads and writes fastText's .bin: a dictionary, then the rows of its words and n-grams.

The layout is that of `FastText::saveModel` in the reference implementation (version 12).
"""

import math
import struct
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from infra.errors import UserError
from infra.files import open_input
from models.arrays import Float32Array
from tasks.embeddings.formats.word_vectors import Subwords, WordSet, own_row

MAGIC = struct.pack("<i", 793712314)
VERSION = 12
SETTINGS = [
    *("dimension", "window", "epochs", "min_count", "negatives", "word_ngrams", "loss", "model"),
    *("buckets", "min_ngram", "max_ngram", "update_rate"),
]
# Magic number, version; settings; subsampling threshold; numbers of entries, words, labels, tokens
# and pruned n-grams.
HEADER = struct.Struct("<4si 12i d iiiqq")
WORD_INFO = struct.Struct("<qb")  # count and type, which follow a word and a NUL
MATRIX = struct.Struct("<?qq")  # whether it is quantized, rows, columns; its numbers follow

# Training settings to write: fastText's own for skip-gram with negative sampling. Readers of
# vectors ignore them.
TRAINING_SETTINGS = {
    **{"window": 5, "epochs": 5, "min_count": 1, "negatives": 5},
    **{"word_ngrams": 1, "loss": 2, "model": 2, "update_rate": 100},
}
COUNT, SAMPLE = 1, 1e-4  # each word's nominal count, and the subsampling threshold


def is_fasttext(file: Path) -> bool:
    """Whether the file, compressed or not, starts with fastText's magic number."""
    with open_input(file) as opened:
        return opened.read(4) == MAGIC


class FastTextReader:
    """Reader of fastText's .bin. It loads the dictionary, and memory-maps the matrix, so that only
    the requested rows are read.

    If the model has n-grams, a word's vector is the mean of its own row and its n-grams' rows.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        if path.suffix.lower() != ".bin" or not path.is_file():
            raise UserError(
                f"{path} is a compressed fastText model, which can't be memory-mapped. Decompress "
                "it."
            )
        try:
            with path.open("rb") as file:
                settings = self._read_header(file)
                shape = self.row_count + settings["buckets"], self.dimension
                if path.stat().st_size < file.tell() + 4 * math.prod(shape):
                    raise EOFError
                matrix: Any = np.memmap(file, "<f4", "r", file.tell(), shape)
        except (struct.error, EOFError, ValueError) as error:  # ValueError: by memmap
            raise UserError(f"{self.name} is truncated. Download it again.") from error
        self._own = matrix[: self.row_count]
        shortest, longest = settings["min_ngram"], settings["max_ngram"]
        has_ngrams = settings["buckets"] > 0 and longest >= max(shortest, 1)
        ngrams = matrix[self.row_count :]
        self.subwords = Subwords(ngrams, shortest, longest) if has_ngrams else None

    def _read_header(self, file: IO[bytes]) -> dict[str, int]:
        """Read up to the numbers of the matrix. Returns the settings."""
        _, version, *values, _, _, words, labels, _, pruned = _unpack(file, HEADER)
        if version != VERSION or labels or pruned > 0:
            raise UserError(
                f"{self.name} is a fastText classifier, a quantized model, or a model in an old "
                "format. Use a .bin that fastText's `skipgram` or `cbow` command wrote."
            )
        settings = dict(zip(SETTINGS, values, strict=True))
        self.row_count, self.dimension = words, settings["dimension"]
        counts_are_valid = self.dimension > 0 and min(words, settings["buckets"]) >= 0
        self._words = [_read_word(file) for _ in range(words)]
        quantized, *shape = _unpack(file, MATRIX)
        expected = [words + settings["buckets"], self.dimension]
        if quantized or shape != expected or not counts_are_valid:
            raise UserError(f"{self.name} is quantized or damaged. Download the full .bin again.")
        return settings

    def rows(self, wanted: Container[bytes], keep_first: int) -> Iterator[tuple[str, Float32Array]]:
        """Yield each wanted word and each of the first `keep_first` words, with its vector (d,)."""
        for number, word in enumerate(self._words):
            if number < keep_first or word in wanted:
                with suppress(UnicodeDecodeError):  # text is valid UTF-8: it has no such word
                    yield word.decode(), self._vector(number, word.decode())

    def _vector(self, number: int, word: str) -> Float32Array:
        vector = np.array(self._own[number], np.float32)
        if self.subwords is not None:
            ngrams = _ngrams_of(word, self.subwords)
            vector = (vector + ngrams.sum(axis=0)) / (len(ngrams) + 1)
        if not np.isfinite(vector).all():
            raise UserError(
                f"{self.name}: the vector of {word!r} has NaN or infinite values. Download the "
                "file again."
            )
        return vector


def _unpack(file: IO[bytes], layout: struct.Struct) -> tuple[Any, ...]:
    return layout.unpack(file.read(layout.size))


def _read_word(file: IO[bytes]) -> bytes:
    """A dictionary word: its bytes up to a NUL; the count and the type that follow are skipped."""
    word = bytearray()
    while (byte := file.read(1)) != b"\0":
        if not byte:
            raise EOFError
        word += byte
    _unpack(file, WORD_INFO)
    return bytes(word)


def write_fasttext(out: IO[bytes], word_set: WordSet) -> None:
    """Write a set that has n-grams: its words, their own rows, the n-grams, and the output layer.

    The output layer is all zeros, as only training reads it.
    """
    assert word_set.subwords is not None
    words, dimension = word_set.vectors.shape
    buckets, shortest, longest = word_set.subwords.ngram_settings
    settings = {
        **TRAINING_SETTINGS,
        **{"dimension": dimension, "buckets": buckets},
        **{"min_ngram": shortest, "max_ngram": longest},
    }
    values = [settings[name] for name in SETTINGS]
    out.write(HEADER.pack(MAGIC, VERSION, *values, SAMPLE, words, words, 0, COUNT * words, -1))
    for word in word_set.words:
        out.write(word.encode() + b"\0" + WORD_INFO.pack(COUNT, 0))
    out.write(MATRIX.pack(False, words + buckets, dimension))
    for word, vector in zip(word_set.words, word_set.vectors, strict=True):
        out.write(own_row(vector, _ngrams_of(word, word_set.subwords)).astype("<f4").tobytes())
    out.write(np.ascontiguousarray(word_set.subwords.ngrams, "<f4").data)
    out.write(MATRIX.pack(False, words, dimension))
    for _ in range(words):
        out.write(bytes(4 * dimension))


def _ngrams_of(word: str, subwords: Subwords) -> Float32Array:
    """The vectors of a word's n-grams (n, d); fastText gives none to "</s>"."""
    return subwords.ngrams[subwords.buckets(word) if word != "</s>" else []]
