"""Vectors as text: GloVe's .txt, and word2vec's and fastText's with a header line."""

import codecs
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import IO

import numpy as np

from tasks.embeddings.wordset import FloatArray
from tasks.errors import UserError

_WHOLE = re.compile(rb"[-+]?\d+")
_DECIMAL = re.compile(rb"[-+]?((\d+\.\d*|\.\d+)(e[-+]?\d+)?|\d+e[-+]?\d+)", re.IGNORECASE)


class TextReader:
    """Lines of a word and its numbers. The header line, or else the first line, fixes how many.

    Words may hold spaces, so the numbers are a line's last fields. What stands before them is no
    word if it ends in one more number: a decimal, or a whole one where whole ones are among the
    line's numbers. Such a line is refused, as one with too few numbers is.
    """

    def __init__(self, name: str, file: IO[bytes]) -> None:
        first = file.readline().removeprefix(codecs.BOM_UTF8)
        header = re.fullmatch(rb"(\d+) (\d+)\s*", first)
        self.name = name
        self.row_count = 0
        self.promised = int(header[1]) if header else None
        self.dimension = int(header[2]) if header else first.rstrip().count(b" ")
        self._lines = file if header else chain([first], file)
        if not self.dimension:
            raise UserError(f"{name} holds no vectors: its first line has no numbers.")

    def rows(self, wanted: Container[bytes], keep_first: int) -> Iterator[tuple[str, FloatArray]]:
        """The wanted and the first rows: each word with its vector (d,)."""
        for line in self._lines:
            self.row_count += 1
            word, numbers = self._split(line.rstrip(b" \r\n"))
            if self.row_count <= keep_first or word in wanted:
                with suppress(UnicodeDecodeError):  # no text holds such a word
                    yield word.decode(), self._vector(numbers)
        if self.promised is not None and self.promised != self.row_count:
            raise UserError(
                f"{self.name} promises {self.promised} rows and holds {self.row_count}; "
                "fetch it again."
            )

    def _split(self, line: bytes) -> tuple[bytes, bytes]:
        """The word and its numbers."""
        spaces = line.count(b" ")
        if spaces == self.dimension:
            word, _, numbers = line.partition(b" ")
            return word, numbers
        word, *fields = line.rsplit(b" ", self.dimension)
        if spaces < self.dimension or _is_number(word.rpartition(b" ")[2], fields):
            raise self._error(f"has {spaces} numbers where {self.dimension} are due")
        return word, b" ".join(fields)

    def _vector(self, numbers: bytes) -> FloatArray:
        try:
            with np.errstate(over="ignore"):
                row = np.array(numbers.split(b" "), dtype=np.float32)
        except ValueError:
            row = np.full(1, np.nan, dtype=np.float32)
        if not np.isfinite(row).all():
            raise self._error("holds something that is not a number")
        return row

    def _error(self, what: str) -> UserError:
        line = self.row_count + (self.promised is not None)
        return UserError(
            f"{self.name}, line {line}, {what}; fetch the file again or mend the line."
        )


def _is_number(field: bytes, numbers: Sequence[bytes]) -> bool:
    """Whether a word's last piece is one more of the numbers behind it."""
    whole = _WHOLE.fullmatch(field) and any(map(_WHOLE.fullmatch, numbers))
    return bool(whole or _DECIMAL.fullmatch(field))
