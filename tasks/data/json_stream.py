"""Cuts a JSON document into values while reading it, so that it is never in memory as a whole.

This module recognises only strings and brackets; a parser checks each value's bytes, here or in
another process.
(ijson's C backend silently reads an unpaired surrogate as "?", names no line or column, and the
paths it keeps take 6 GB if brackets are nested fifty thousand deep.)
"""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, TypeVar

from pydantic_core import from_json

from tasks.data.format_errors import FormatError, json_error, short_json, utf8_error

BLOCK_BYTES = 1 << 20
# Bytes of the largest value: an unterminated string must not exhaust the memory.
LARGEST_VALUE = 1 << 30

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_NEXT_BRACKET = re.compile(rb'(?:[^][{}"]++|' + _STRING + rb")*+[][{}]", re.DOTALL)
_DEPTH = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_PLAIN = re.compile(rb'[^][{},:"\s]++(?=[][{},:"\s])')  # a number, true, false, null
_SPACE = re.compile(rb"[ \t\r\n]*+")
_POSITION = re.compile(r" at line (\d+) column (\d+)$")

T = TypeVar("T")


class RawValue(NamedTuple):
    """The bytes of a value, and where it begins: after how many bytes, and line and column."""

    content: bytes
    before: int
    line: int
    column: int

    def parsed(self, parse: Callable[[bytes], T]) -> T:
        """What `parse` makes of the bytes.

        Raises FormatError, with the place in the document, if `parse` raises ValueError with the
        JSON parser's message.
        """
        try:
            return parse(self.content)
        except ValueError as error:
            raise self._parse_error(str(error)) from error

    def _parse_error(self, reason: str) -> FormatError:
        position = _POSITION.search(reason)
        if position:
            column = int(position[2]) + (self.column - 1 if position[1] == "1" else 0)
            line = self.line + int(position[1]) - 1
            reason = f"{reason[: position.start()]} at line {line} column {column}"
        return utf8_error(self.content, self.before) or json_error(reason)


class Document:
    """A JSON document, read once from its beginning to its end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._buffer, self._at = stream, b"", 0
        self._dropped = 0  # bytes before the buffer
        self._line, self._column, self._placed = 1, 1, 0  # the place of the buffer's byte `_placed`
        self._more()
        if self._buffer.startswith(codecs.BOM_UTF8):
            self._at = len(codecs.BOM_UTF8)

    def peek(self) -> str:
        """The next byte after white space as a Latin-1 character, or "" at the end."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer) or not self._more():
                return self._buffer[self._at : self._at + 1].decode("latin-1")

    def take(self, expected: str) -> str:
        """Consume and return the next character; raises FormatError if it is not in `expected`."""
        character = self.peek()
        if not character or character not in expected:
            raise self.unexpected(" or ".join(f"`{c}`" for c in expected))
        self._at += 1
        return character

    def value(self) -> RawValue:
        """Consume and return the next value.

        Its bytes have balanced brackets but are otherwise unchecked; if the document ends within
        the value, they are the rest. Raises FormatError if no value follows.
        """
        first = self.peek()
        if not first or first in ",:]}":
            raise self.unexpected("a value")
        length = self._length(first)
        content = self._buffer[self._at : self._at + length]
        value = RawValue(content, self._dropped + self._at, *self._place())
        self._at += length
        return value

    def preview(self) -> str:
        """The next characters, shortened for a message."""
        self.peek()
        while len(self._buffer) < self._at + 240 and self._more():
            pass
        text = self._buffer[self._at : self._at + 240].decode("utf-8", "replace")
        return text if len(text) <= 60 else f"{text[:57]}…"

    def unexpected(self, expected: str) -> FormatError:
        """The FormatError for a next character that is not the expected one."""
        found = f"`{self.preview()[:1]}`" if self.peek() else "the end of the file"
        line, column = self._place()
        return json_error(f"found {found}, not {expected}, at line {line} column {column}")

    def _length(self, first: str) -> int:
        """The length in bytes of the next value, which begins with `first`."""
        pattern = {"[": _NEXT_BRACKET, "{": _NEXT_BRACKET, '"': _WHOLE_STRING}.get(first, _PLAIN)
        depth = length = 0
        while True:
            if match := pattern.match(self._buffer, self._at + length):
                length = match.end() - self._at
                depth += _DEPTH.get(self._buffer[match.end() - 1], 0)
                if depth == 0:
                    return length
            elif not self._more():
                return len(self._buffer) - self._at

    def _more(self) -> bool:
        """Read at least as many bytes as are unconsumed, so a long value is rescanned only rarely.

        Return False at the end of the document. Raises FormatError for a value longer than
        `LARGEST_VALUE`.
        """
        unconsumed = len(self._buffer) - self._at
        if unconsumed > LARGEST_VALUE:
            line, column = self._place()
            raise json_error(f"a value at line {line} column {column} has no end within 1 GiB")
        block = self._stream.read(max(BLOCK_BYTES, unconsumed))
        if block:
            self._place()
            self._dropped += self._at
            self._buffer, self._at, self._placed = self._buffer[self._at :] + block, 0, 0
        return bool(block)

    def _place(self) -> tuple[int, int]:
        """Line and column, both from 1, of the next byte."""
        lines = self._buffer.count(b"\n", self._placed, self._at)
        if lines:
            self._line += lines
            self._column = self._at - self._buffer.rfind(b"\n", self._placed, self._at)
        else:
            self._column += self._at - self._placed
        self._placed = self._at
        return self._line, self._column


def array_items(document: Document, name: str) -> Iterator[RawValue]:
    """Yield the items of the array at the top level, or of that in the field `name` of the object
    there, of which other fields are skipped.

    Raises FormatError if the document is malformed, or lacks or repeats the field.
    """
    names: list[Any] = []
    if document.peek() == "[":
        names.append(name)
        yield from _values(document)
    for _ in _entries(document, "{", "}") if not names else ():
        if document.peek() != '"':
            raise document.unexpected('`"`')
        names.append(document.value().parsed(from_json))
        document.take(":")
        if names[-1] != name:
            document.value().parsed(from_json)
        elif name in names[:-1]:
            raise FormatError(f'the field "{name}" occurs twice; merge the two.')
        elif document.peek() not in ("[", ""):
            found = short_json(document.value().parsed(from_json))
            raise FormatError(f'field "{name}": found {found}; it should be an array.')
        else:
            yield from _values(document)
    if document.peek():
        raise FormatError(f"text follows the end of the JSON ({document.preview()}); remove it.")
    if name not in names:
        raise FormatError(
            f'the field "{name}" is missing (found: {", ".join(names[:5]) or "nothing"}); '
            f'write {{"{name}": [ … ]}}.'
        )


def _values(document: Document) -> Iterator[RawValue]:
    for _ in _entries(document, "[", "]"):
        yield document.value()


def _entries(document: Document, opening: str, closing: str) -> Iterator[None]:
    """Consume the brackets and commas of an array or object; yield before each entry."""
    document.take(opening)
    if document.peek() == closing:
        document.take(closing)
        return
    yield
    while document.take(f",{closing}") == ",":
        yield
