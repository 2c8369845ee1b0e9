"""Reads and writes fastText's .bin: a dictionary, then the rows of its words and n-grams.

The layout is that of `FastText::saveModel` in the reference implementation (version 12).
"""

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
SETTINGS = [
    *("dimension", "window", "epochs", "min_count", "negatives", "word_ngrams", "loss", "model"),
    *("buckets", "min_ngram", "max_ngram", "update_rate"),
]

TRAINING_SETTINGS = {
    **{"window": 5, "epochs": 5, "min_count": 1, "negatives": 5},
    **{"word_ngrams": 1, "loss": 2, "model": 2, "update_rate": 100},
}
"""Training settings to write: fastText's own for skip-gram with negative sampling. Readers of
vectors ignore them."""
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
                self._read_header(file)
                offset = file.tell()
        except (struct.error, EOFError) as error:
            raise self._cut_off() from error
        words, dimension = len(self._words), self.dimension
        shape = (words + self.settings["buckets"], dimension)
        if path.stat().st_size < offset + 4 * shape[0] * shape[1]:
            raise self._cut_off()
        matrix: Any = np.memmap(path, "<f4", "r", offset, shape)
        self._own = matrix[:words]
        self.row_count = words
        shortest, longest = self.settings["min_ngram"], self.settings["max_ngram"]
        has_ngrams = self.settings["buckets"] > 0 and longest >= max(shortest, 1)
        self.subwords = Subwords(matrix[words:], shortest, longest) if has_ngrams else None

    def _read_header(self, file: IO[bytes]) -> None:
        version = _unpack(file, "<ii")[1]
        self.settings = dict(zip(SETTINGS, _unpack(file, "<12i"), strict=True))
        _unpack(file, "<d")
        _, words, labels, _, pruned = _unpack(file, "<iiiqq")
        if version != 12 or labels or pruned > 0:
            raise UserError(
                f"{self.name} is a fastText classifier, a quantized model, or a model in an old "
                "format. Use a .bin that fastText's `skipgram` or `cbow` command wrote."
            )
        self.dimension = self.settings["dimension"]
        self._words = [_read_word(file) for _ in range(words)]
        quantised, rows, columns = _unpack(file, "<?qq")
        if quantised or (rows, columns) != (words + self.settings["buckets"], self.dimension):
            raise UserError(f"{self.name} is quantized or damaged. Download the full .bin again.")

    def rows(self, wanted: Container[bytes], keep_first: int) -> Iterator[tuple[str, Float32Array]]:
        """Yield each wanted word and each of the first `keep_first` words, with its vector (d,)."""
        for number, word in enumerate(self._words):
            if number < keep_first or word in wanted:
                with suppress(UnicodeDecodeError):  # text is valid UTF-8: it has no such word
                    yield word.decode(), self._vector(number, word.decode())

    def _vector(self, number: int, word: str) -> Float32Array:
        own = self._own[number]
        if self.subwords is None or word == "</s>":
            vector = np.array(own, np.float32)
        else:
            rows = self.subwords.buckets(word)
            total = own + self.subwords.ngrams[rows].sum(axis=0)
            vector = np.asarray(total / (len(rows) + 1), np.float32)
        if not np.isfinite(vector).all():
            raise UserError(
                f"{self.name}: the vector of {word!r} has NaN or infinite values. Download the "
                "file again."
            )
        return vector

    def _cut_off(self) -> UserError:
        return UserError(f"{self.name} is truncated. Download it again.")


def _unpack(file: IO[bytes], layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _read_word(file: IO[bytes]) -> bytes:
    """A dictionary word: its bytes up to a NUL; the count and the type that follow are skipped."""
    word = bytearray()
    while (byte := file.read(1)) != b"\0":
        if not byte:
            raise EOFError
        word += byte
    _unpack(file, "<qb")
    return bytes(word)


def write_fasttext(out: IO[bytes], word_set: WordSet) -> None:
    """Write a set that has n-grams: its words, their own rows, the n-grams, and the output layer.

    The output layer is all zeros, as only training reads it.
    """
    assert word_set.subwords is not None
    words, dimension = word_set.vectors.shape
    buckets, shortest, longest = word_set.subwords.ngram_settings
    set_settings = {"dimension": dimension, "buckets": buckets}
    settings = TRAINING_SETTINGS | set_settings | {"min_ngram": shortest, "max_ngram": longest}
    out.write(MAGIC + struct.pack("<i12id", 12, *(settings[name] for name in SETTINGS), SAMPLE))
    out.write(struct.pack("<iiiqq", words, words, 0, COUNT * words, -1))
    for word in word_set.words:
        out.write(word.encode() + struct.pack("<xqb", COUNT, 0))
    out.write(struct.pack("<?qq", False, words + buckets, dimension))
    for word, vector in zip(word_set.words, word_set.vectors, strict=True):
        out.write(_own_row(word, vector, word_set.subwords).astype("<f4").tobytes())
    out.write(np.ascontiguousarray(word_set.subwords.ngrams, "<f4").data)
    out.write(struct.pack("<?qq", False, words, dimension))
    for _ in range(words):
        out.write(bytes(4 * dimension))


def _own_row(word: str, vector: Float32Array, subwords: Subwords) -> Float32Array:
    rows = subwords.buckets(word) if word != "</s>" else []  # fastText: no n-grams
    return own_row(vector, subwords.ngrams[rows])
