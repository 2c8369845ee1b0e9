"""A document is cut into the same values whatever the size of the chunks that are read."""

import io
import json
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.data.format_errors import FormatError
from tasks.data.json_stream import Document, array_items

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Trickle(io.BytesIO):
    """A stream that returns a few bytes per read, as a network connection may."""

    def __init__(self, content: bytes, step: int) -> None:
        super().__init__(content)
        self._step = step

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._step)


def cut(content: bytes, step: int) -> list[Any]:
    """The values of the array "data", or the message of a FormatError."""
    try:
        document = Document(cast(BinaryIO, Trickle(content, step)))
        return [item.parsed(json.loads) for item in array_items(document, "data")]
    except FormatError as error:
        return [str(error)]


@given(
    st.lists(JSON, max_size=4),
    st.dictionaries(st.text().filter(lambda name: name != "data"), JSON, max_size=3),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.integers(1, 40),
)
def test_streamed_items_match_the_document(
    data: list[Any], other: dict[str, Any], first: bool, indent: int | None, step: int
) -> None:
    tree = {"data": data, **other} if first else {**other, "data": data}
    content = json.dumps(tree, ensure_ascii=False, indent=indent).encode("utf-8", "surrogatepass")
    assert cut(content, step) == data


@given(st.binary(max_size=30), st.integers(0, 60), st.integers(4, 20))
def test_result_does_not_depend_on_chunk_size(noise: bytes, at: int, step: int) -> None:
    valid = b'{"a": [1, {"b": "}]"}],\n "data": [{"c": "\\"{"},\n 2, []], "d": true}'
    content = valid[:at] + noise + valid[at:]
    assert cut(content, step) == cut(content, 1 << 20)


def test_long_values_are_read_in_linear_time() -> None:
    text = "x" * (20 << 20)
    content = json.dumps({"data": [text, {"a": text}, 1]}).encode()
    document = Document(io.BytesIO(content))
    lengths = [len(item.content) for item in array_items(document, "data")]
    assert lengths == [len(text) + 2, len(text) + 9, 1]


def test_unclosed_string_does_not_fill_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.data.json_stream.LARGEST_VALUE", 1 << 20)
    content = b'{"data": [\n{"a": "' + b"x" * (4 << 20)
    (message,) = cut(content, 1 << 16)
    assert "a value at line 2 column 1 has no end within 1 GiB" in message


@given(st.lists(JSON, min_size=1, max_size=4), st.text(" \n\t", max_size=5), st.integers(1, 40))
def test_items_know_their_place(data: list[Any], space: str, step: int) -> None:
    items = f",{space}".join(json.dumps(item, indent=1) for item in data)
    content = f'{{"data": [{space}{items}]}}'.encode()
    for item in array_items(Document(cast(BinaryIO, Trickle(content, step))), "data"):
        before = content[: item.before].decode()
        assert content[item.before :].startswith(item.content)
        assert item.line == before.count("\n") + 1
        assert item.column == len(before) - before.rfind("\n")
