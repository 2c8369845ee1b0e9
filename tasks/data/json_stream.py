"""Cuts a JSON document into values while reading it, so that it is never in memory as a whole.

This module recognises only strings and brackets; a parser checks each value's bytes.
(ijson's C backend silently reads an unpaired surrogate as "?", and the paths it keeps exhaust the
memory if brackets are nested a hundred thousand deep.)
"""

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from pydantic_core import from_json

from tasks.data.format_errors import FormatError, json_error, refuse_wide_characters, utf8_error

BLOCK_BYTES = 1 << 20
LARGEST_VALUE = 1 << 30
"""Bytes of the largest value: an unterminated string must not exhaust the memory."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_NEXT_BRACKET = re.compile(rb'(?:[^][{}"]++|' + _STRING + rb")*+([][{}])", re.DOTALL)
_PLAIN = re.compile(rb'[^][{},:"\s]++(?=[][{},:"\s])')  # a number, true, false, null
_SPACE = re.compile(rb"[ \t\r\n]*+")
_POSITION = re.compile(r" at line (\d+) column (\d+)$")


class Value(NamedTuple):
    """A value's bytes, and the number of bytes before it in the document."""

    content: bytes
    offset: int


class Document:
    """A JSON document, read once from its beginning to its end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._buffer, self._at = stream, b"", 0
        self._dropped, self._line, self._column = 0, 1, 1  # position of the buffer's first byte
        self._more()
        if self._buffer.startswith(codecs.BOM_UTF8):
            self._at = len(codecs.BOM_UTF8)
        refuse_wide_characters(self._buffer)

    def peek(self) -> bytes:
        """The next byte after white space, or b"" at the end."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer) or not self._more():
                return self._buffer[self._at : self._at + 1]

    def take(self, expected: str) -> str:
        """Consume and return the next character; raises FormatError if it is not in `expected`."""
        character = self.peek().decode("latin-1")
        if not character or character not in expected:
            raise self._unexpected(" or ".join(f"`{c}`" for c in expected))
        self._at += 1
        return character

    def value(self) -> Value:
        """Consume and return the next value, with balanced brackets but otherwise unchecked.

        If the document ends within the value, return the rest. `parse_error` accepts the value
        until the next one is read. Raises FormatError if no value follows.
        """
        first = self.peek()
        if not first or first in b",:]}":
            raise self._unexpected("a value")
        length = self._length(first)
        start = self._at
        self._at += length
        return Value(self._buffer[start : self._at], self._dropped + start)

    def parse_error(self, value: Value, reason: str) -> FormatError:
        """The FormatError for a value that its parser rejected, with its place in the document."""
        position = _POSITION.search(reason)
        if position:
            line, column = self._place(value.offset)
            first_line = position[1] == "1"
            column = int(position[2]) + (column - 1 if first_line else 0)
            line += int(position[1]) - 1
            reason = f"{reason[: position.start()]} at line {line} column {column}"
        return utf8_error(value.content, value.offset) or json_error(reason)

    def preview(self) -> str:
        """The next characters, shortened for a message."""
        self.peek()
        while len(self._buffer) < self._at + 240 and self._more():
            pass
        text = self._buffer[self._at : self._at + 240].decode("utf-8", "replace")
        return text if len(text) <= 60 else f"{text[:57]}…"

    def _length(self, first: bytes) -> int:
        """The length in bytes of the next value, which begins with `first`."""
        if first in b"[{":
            return self._bracketed_length()
        pattern = _WHOLE_STRING if first == b'"' else _PLAIN
        while not (match := pattern.match(self._buffer, self._at)):
            if not self._more():
                return len(self._buffer) - self._at
        return match.end() - self._at

    def _bracketed_length(self) -> int:
        depth, length = 0, 0
        while True:
            while match := _NEXT_BRACKET.match(self._buffer, self._at + length):
                length = match.end() - self._at
                depth += 1 if match[1] in b"[{" else -1
                if depth == 0:
                    return length
            if not self._more():
                return len(self._buffer) - self._at

    def _more(self) -> bool:
        """Read at least as many bytes as are unconsumed, so a long value is rescanned only rarely.

        Return False at the end of the document. Raises FormatError for a value longer than
        `LARGEST_VALUE`.
        """
        unconsumed = len(self._buffer) - self._at
        if unconsumed > LARGEST_VALUE:
            line, column = self._place(self._dropped + self._at)
            raise json_error(f"a value at line {line} column {column} has no end within 1 GiB")
        block = self._stream.read(max(BLOCK_BYTES, unconsumed))
        if block:
            self._line, self._column = self._place(self._dropped + self._at)
            self._dropped += self._at
            self._buffer, self._at = self._buffer[self._at :] + block, 0
        return bool(block)

    def _place(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of a byte that is still in the buffer."""
        at = offset - self._dropped
        lines = self._buffer.count(b"\n", 0, at)
        column = at - self._buffer.rfind(b"\n", 0, at) if lines else self._column + at
        return self._line + lines, column

    def _unexpected(self, expected: str) -> FormatError:
        found = f"`{self.preview()[:1]}`" if self.peek() else "the end of the file"
        line, column = self._place(self._dropped + self._at)
        return json_error(f"found {found}, not {expected}, at line {line} column {column}")


def array_items(document: Document, name: str) -> Iterator[Value]:
    """Yield the items of the array in the top-level object's field `name`; skip other fields.

    Raises FormatError if the document is malformed outside the items, or lacks or repeats the
    field.
    """
    names: list[str] = []
    document.take("{")
    separator = document.take("}") if document.peek() == b"}" else ","
    while separator == ",":
        names.append(_key(document))
        if names[-1] != name:
            _parse(document)
        elif name in names[:-1]:
            raise FormatError(f'the field "{name}" occurs twice; merge the two.')
        else:
            yield from _items(document, name)
        separator = document.take(",}")
    if document.peek():
        raise FormatError(f"text follows the end of the JSON ({document.preview()}); remove it.")
    if name not in names:
        others = ", ".join(names[:5]) or "nothing"
        raise FormatError(
            f'the field "{name}" is missing (found: {others}); write {{"{name}": [ … ]}}.'
        )


def _items(document: Document, name: str) -> Iterator[Value]:
    if document.peek() not in (b"[", b""):
        raise FormatError(f'field "{name}": found {document.preview()}; it should be an array.')
    document.take("[")
    if document.peek() == b"]":
        document.take("]")
        return
    yield document.value()
    while document.take(",]") == ",":
        yield document.value()


def _key(document: Document) -> str:
    if document.peek() != b'"':
        document.take('"')
    key = _parse(document)
    document.take(":")
    return str(key)


def _parse(document: Document) -> object:
    value = document.value()
    try:
        return from_json(value.content)
    except ValueError as error:
        raise document.parse_error(value, str(error)) from error
