"""Reads and writes fastText's .bin: a dictionary, then the rows of its words and n-grams.

The layout is that of `FastText::saveModel` in the reference implementation (version 12).
"""

import struct
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

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
            with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
                settings, begin = self._read_header(content)
                shape = self.row_count + settings["buckets"], self.dimension
                if len(content) < begin + 4 * shape[0] * shape[1]:
                    raise EOFError
            matrix: Any = np.memmap(path, "<f4", "r", begin, shape)
        except (struct.error, EOFError, ValueError) as error:  # ValueError: by memmap
            raise UserError(f"{self.name} is truncated. Download it again.") from error
        self._own = matrix[: self.row_count]
        shortest, longest = settings["min_ngram"], settings["max_ngram"]
        has_ngrams = settings["buckets"] > 0 and longest >= max(shortest, 1)
        self.subwords = (
            Subwords(matrix[self.row_count :], shortest, longest) if has_ngrams else None
        )

    def _read_header(self, content: mmap) -> tuple[dict[str, int], int]:
        """Read up to the numbers of the matrix. Returns the settings, and where they begin."""
        _, version, *values, _, _, words, labels, _, pruned = HEADER.unpack_from(content)
        if version != VERSION or labels or pruned > 0:
            raise UserError(
                f"{self.name} is a fastText classifier, a quantized model, or a model in an old "
                "format. Use a .bin that fastText's `skipgram` or `cbow` command wrote."
            )
        settings = dict(zip(SETTINGS, values, strict=True))
        self.row_count, self.dimension = words, settings["dimension"]
        self._words, begin = [], HEADER.size
        for _ in range(words):
            end = content.find(b"\0", begin)
            if end < 0:
                raise EOFError
            self._words.append(content[begin:end])
            begin = end + 1 + WORD_INFO.size
        quantized, *shape = MATRIX.unpack_from(content, begin)
        counts_are_valid = self.dimension > 0 and min(words, settings["buckets"]) >= 0
        expected = [words + settings["buckets"], self.dimension]
        if quantized or shape != expected or not counts_are_valid:
            raise UserError(f"{self.name} is quantized or damaged. Download the full .bin again.")
        return settings, begin + MATRIX.size

    def rows(self) -> Iterator[tuple[bytes, int]]:
        """Yield each word, and its row of the matrix."""
        for row, word in enumerate(self._words):
            yield word, row

    def vector(self, word: str, row: int) -> Float32Array:
        """The vector (d,) of a word."""
        vector = np.array(self._own[row], np.float32)
        if self.subwords is not None:
            ngrams = _ngrams_of(word, self.subwords)
            vector = (vector + ngrams.sum(axis=0)) / (len(ngrams) + 1)
        if not np.isfinite(vector).all():
            raise UserError(
                f"{self.name}: the vector of {word!r} has NaN or infinite values. Download the "
                "file again."
            )
        return vector


def write_fasttext(file: Path, word_set: WordSet) -> None:
    """Write a set that has n-grams with gensim, as a skip-gram model that has not been trained."""
    from gensim.models.fasttext import FastText, save_facebook_model

    assert word_set.subwords is not None
    buckets, shortest, longest = word_set.subwords.ngram_settings
    model = FastText(
        vector_size=word_set.vectors.shape[1],
        min_n=shortest,
        max_n=longest,
        bucket=1,  # gensim would draw as many random vectors
        min_count=1,
        sg=1,
    )
    ranks = range(len(word_set.words), 0, -1)  # as counts, they keep the order
    model.build_vocab_from_freq(dict(zip(word_set.words, ranks, strict=True)))
    model.wv.bucket, model.wv.vectors_ngrams = buckets, word_set.subwords.ngrams
    for row, (word, vector) in enumerate(zip(word_set.words, word_set.vectors, strict=True)):
        model.wv.vectors_vocab[row] = own_row(vector, _ngrams_of(word, word_set.subwords))
    save_facebook_model(model, str(file))


def _ngrams_of(word: str, subwords: Subwords) -> Float32Array:
    """The vectors of a word's n-grams (n, d); fastText gives none to "</s>"."""
    return subwords.ngrams[subwords.buckets(word) if word != "</s>" else []]
