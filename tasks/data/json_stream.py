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

from tasks.data.format_errors import Mistake, not_json, not_utf8, refuse_wide_characters

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

    def take(self, wanted: str) -> str:
        """Consume and return the next character; raises Mistake if it is not one of `wanted`."""
        found = self.peek().decode("latin-1")
        if not found or found not in wanted:
            raise self._unexpected(" or ".join(f"`{character}`" for character in wanted))
        self._at += 1
        return found

    def value(self) -> Value:
        """Consume and return the next value, with balanced brackets but otherwise unchecked.

        If the document ends within the value, return the rest. `mistake` accepts the value until
        the next one is read. Raises Mistake if no value follows.
        """
        first = self.peek()
        if not first or first in b",:]}":
            raise self._unexpected("a value")
        length = self._length(first)
        start = self._at
        self._at += length
        return Value(self._buffer[start : self._at], self._dropped + start)

    def mistake(self, value: Value, reason: str) -> Mistake:
        """The Mistake for a value that its parser rejected, with its position in the document."""
        found = _POSITION.search(reason)
        if found:
            line, column = self._place(value.offset)
            first = found[1] == "1"
            column = int(found[2]) + (column - 1 if first else 0)
            reason = f"{reason[: found.start()]} at line {line + int(found[1]) - 1} column {column}"
        return not_utf8(value.content, value.offset) or not_json(reason)

    def beginning(self) -> str:
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
        while not (found := pattern.match(self._buffer, self._at)):
            if not self._more():
                return len(self._buffer) - self._at
        return found.end() - self._at

    def _bracketed_length(self) -> int:
        depth, length = 0, 0
        while True:
            while found := _NEXT_BRACKET.match(self._buffer, self._at + length):
                length = found.end() - self._at
                depth += 1 if found[1] in b"[{" else -1
                if depth == 0:
                    return length
            if not self._more():
                return len(self._buffer) - self._at

    def _more(self) -> bool:
        """Read at least as many bytes as are unconsumed, so a long value is rescanned only rarely.

        Return False at the end of the document. Raises Mistake for a value above `LARGEST_VALUE`.
        """
        waiting = len(self._buffer) - self._at
        if waiting > LARGEST_VALUE:
            line, column = self._place(self._dropped + self._at)
            raise not_json(f"more than 1 GiB without an end from line {line} column {column} on")
        block = self._stream.read(max(BLOCK_BYTES, waiting))
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

    def _unexpected(self, wanted: str) -> Mistake:
        found = f"`{self.beginning()[:1]}`" if self.peek() else "the end"
        line, column = self._place(self._dropped + self._at)
        return not_json(f"found {found}, not {wanted}, at line {line} column {column}")


def array_items(document: Document, name: str) -> Iterator[Value]:
    """Yield the items of the array in the top-level object's field `name`; skip other fields.

    Raises Mistake if the document is malformed outside the items, or lacks or repeats the field.
    """
    found: list[str] = []
    document.take("{")
    separator = document.take("}") if document.peek() == b"}" else ","
    while separator == ",":
        found.append(_key(document))
        if found[-1] != name:
            _parsed(document)
        elif name in found[:-1]:
            raise Mistake(f'the field "{name}" stands twice; join the two.')
        else:
            yield from _items(document, name)
        separator = document.take(",}")
    if document.peek():
        raise Mistake(f"text follows the end of the JSON ({document.beginning()}); remove it.")
    if name not in found:
        there = ", ".join(found[:5]) or "nothing"
        raise Mistake(f'the field "{name}" is missing (found: {there}); write {{"{name}": [ … ]}}.')


def _items(document: Document, name: str) -> Iterator[Value]:
    if document.peek() not in (b"[", b""):
        raise Mistake(f'field "{name}": found {document.beginning()}; it should be an array.')
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
    key = _parsed(document)
    document.take(":")
    return str(key)


def _parsed(document: Document) -> object:
    value = document.value()
    try:
        return from_json(value.content)
    except ValueError as error:
        raise document.mistake(value, str(error)) from error
