"""Reads vectors in text formats, and word2vec's .bin.

Text is GloVe's .txt, or that of word2vec and fastText, which has a header line. The .bin has a
header line, then for each word the word, a space, and its numbers as float32.
"""

import codecs
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO

import numpy as np

from infra.errors import UserError
from models.arrays import Float32Array

_WHOLE = re.compile(rb"[-+]?\d+")
_DECIMAL = re.compile(rb"[-+]?((\d+\.\d*|\.\d+)(e[-+]?\d+)?|\d+e[-+]?\d+)", re.IGNORECASE)

LONGEST_WORD = 10_000  # bytes; a longer "word" means that the file has another format
MOST_ROWS, MOST_NUMBERS = 10**12, 10**6  # a larger header means the same


def _parse_header(name: str, line: bytes) -> tuple[int, int] | None:
    """The numbers of words and of dimensions in a header line; None if it is none.

    Raises UserError for numbers that no file of word vectors has.
    """
    header = re.fullmatch(rb"0*(\d+) 0*(\d+)\s*", line)
    if header is None:
        return None
    # Python converts at most 4,300 digits.
    rows, dimension = (int(digits[:20]) for digits in header.groups())
    start = line[:40].decode(errors="replace").strip()
    if rows > MOST_ROWS or not 0 < dimension <= MOST_NUMBERS:
        raise UserError(
            f"{name}: the header {start!r} is not that of word vectors (number of words, then 1 to "
            f"{MOST_NUMBERS:,} dimensions). Use a file of word vectors."
        )
    return rows, dimension


class TextReader:
    """Reader of text formats: a word and its numbers a line. The dimension comes from the header
    line, or without one from the first line.

    Words may contain spaces, so the numbers are a line's last fields. A line has too many numbers
    if the text before them ends in a decimal, or in an integer while some of the line's numbers are
    integers. Lines with too many or too few numbers raise UserError.
    """

    subwords = None

    def __init__(self, name: str, file: IO[bytes]) -> None:
        first = file.readline().removeprefix(codecs.BOM_UTF8)
        header = _parse_header(name, first)
        self.name = name
        self.row_count = 0
        self.expected_rows = header[0] if header else None
        self.dimension = header[1] if header else first.rstrip().count(b" ")
        self._lines = file if header else chain([first], file)
        if not self.dimension:
            raise UserError(
                f"{name} contains no vectors: its first line has no numbers. Use a file of word "
                "vectors."
            )

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each word, and its numbers as text."""
        for line in self._lines:
            self.row_count += 1
            yield self._split(line.rstrip(b" \r\n"))
        if self.expected_rows is not None and self.expected_rows != self.row_count:
            raise UserError(
                f"{self.name}: the header states {self.expected_rows} rows, but the file has "
                f"{self.row_count}. Download it again."
            )

    def _split(self, line: bytes) -> tuple[bytes, bytes]:
        spaces = line.count(b" ")
        if spaces == self.dimension:
            word, _, numbers = line.partition(b" ")
            return word, numbers
        word, *fields = line.rsplit(b" ", self.dimension)
        if spaces < self.dimension or _is_number(word.rpartition(b" ")[2], fields):
            raise self._row_error(f"expected {self.dimension} numbers, found {spaces}")
        return word, b" ".join(fields)

    def vector(self, word: str, numbers: bytes) -> Float32Array:
        """The vector (d,) of the row that was read last."""
        try:
            with np.errstate(over="ignore"):
                row = np.array(numbers.split(b" "), dtype=np.float32)
        except ValueError:
            row = np.full(1, np.nan, dtype=np.float32)
        if not np.isfinite(row).all():
            raise self._row_error("a value is not a finite number")
        return row

    def _row_error(self, problem: str) -> UserError:
        line = self.row_count + (self.expected_rows is not None)
        return UserError(
            f"{self.name}, line {line}: {problem}. Download the file again, or fix the line."
        )


def _is_number(field: bytes, numbers: Sequence[bytes]) -> bool:
    """Whether the last field of a word is one more number before its numbers."""
    whole = _WHOLE.fullmatch(field) and any(map(_WHOLE.fullmatch, numbers))
    return bool(whole or _DECIMAL.fullmatch(field))


class Word2VecReader:
    """Reader of word2vec's .bin; reads row by row, and keeps no rows in memory."""

    subwords = None

    def __init__(self, name: str, file: IO[bytes]) -> None:
        header = _parse_header(name, file.readline(LONGEST_WORD))
        if header is None:
            raise UserError(
                f"{name} is neither a word2vec nor a fastText file: it has no such header. Use a "
                ".bin that word2vec or fastText wrote."
            )
        self.name, self._file = name, file
        self.expected_rows, self.dimension = header
        self.row_count = 0

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each word, and the bytes of its numbers."""
        while self.row_count < self.expected_rows:
            self.row_count += 1
            word = self._word()
            numbers = self._file.read(4 * self.dimension)
            if len(numbers) < 4 * self.dimension:
                raise self._row_error("file is truncated")
            yield word, numbers

    def vector(self, word: str, numbers: bytes) -> Float32Array:
        """The vector (d,) of the row that was read last."""
        vector = np.frombuffer(numbers, "<f4").astype(np.float32)
        if not np.isfinite(vector).all():
            raise self._row_error("a value is not a finite number")
        return vector

    def _word(self) -> bytes:
        """The bytes up to a space, without the line feed with which some writers end rows."""
        word = bytearray()
        while (byte := self._file.read(1)) != b" ":
            if not byte or len(word) > LONGEST_WORD:
                raise self._row_error("file is truncated")
            word += byte
        return bytes(word).lstrip(b"\n")

    def _row_error(self, problem: str) -> UserError:
        return UserError(
            f"{self.name}, row {self.row_count} of {self.expected_rows}: {problem}. Download the "
            "file again."
        )
