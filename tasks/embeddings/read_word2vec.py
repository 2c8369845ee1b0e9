"""word2vec's .bin: a header line, then each word, a space, and its numbers as float32."""

import re
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import IO

import numpy as np

from tasks.embeddings.wordset import FloatArray
from tasks.errors import UserError

LONGEST_WORD = 10_000  # bytes; beyond, it is no such file


class Word2VecReader:
    """Reads row by row, and keeps none."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        header = re.fullmatch(rb"(\d+) (\d+)\s*", file.readline(LONGEST_WORD))
        if header is None or not int(header[2]):
            raise UserError(
                f"{name} is no word2vec or fastText file: it begins with neither's header."
            )
        self.name, self._file = name, file
        self.promised, self.dimension = int(header[1]), int(header[2])
        self.row_count = 0

    def rows(self, wanted: Container[bytes], keep_first: int) -> Iterator[tuple[str, FloatArray]]:
        """The wanted and the first rows: each word with its vector (d,)."""
        for number in range(1, self.promised + 1):
            word = self._word()
            data = self._file.read(4 * self.dimension)
            if len(data) < 4 * self.dimension:
                raise self._error("is cut off")
            self.row_count = number
            if number <= keep_first or word in wanted:
                vector = np.frombuffer(data, "<f4").astype(np.float32)
                if not np.isfinite(vector).all():
                    raise self._error("holds something that is not a number")
                with suppress(UnicodeDecodeError):  # no text holds such a word
                    yield word.decode(), vector

    def _word(self) -> bytes:
        """The bytes up to a space; some writers end each row with a line feed."""
        word = bytearray()
        while (byte := self._file.read(1)) != b" ":
            if not byte or len(word) > LONGEST_WORD:
                raise self._error("is cut off")
            word += byte
        return bytes(word).lstrip(b"\n")

    def _error(self, what: str) -> UserError:
        return UserError(
            f"{self.name}, row {self.row_count + 1} of {self.promised}, {what}; fetch it again."
        )
