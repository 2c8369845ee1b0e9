"""Malformed files, as people and programs make them: one sentence each, with file and place."""

import bz2
import gzip
import io
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.errors import UserError
from tasks.data import readers
from tasks.data.ingest import ingest_file
from tasks.data.ingested import questions_with_ledger

CONTEXT = "The gold bar lies in the old mill."
GOLD = {"text": "gold", "answer_start": 4}


def question(**changes: Any) -> dict[str, Any]:
    """A valid question, with some fields changed, or left out if their value is `...`."""
    fields = {"id": "q1", "question": "What lies there?", "answers": [GOLD], **changes}
    return {name: value for name, value in fields.items() if value is not ...}


def squad(*questions: Any, **paragraph: Any) -> Any:
    entry = {"context": CONTEXT, "qas": list(questions), **paragraph}
    return {"data": [{"title": "Bars", "paragraphs": [entry]}]}


def as_bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


VALID = as_bytes(squad(question()))
STRANGE: list[Any] = [None, 7, 4.5, True, "text", [], {}, [[]], {"text": "gold"}]


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return buffer.getvalue()


def parquet(**changes: Any) -> bytes:
    columns = {"id": ["a"], "context": [CONTEXT], "question": ["What?"], "answers": [[GOLD]]}
    kept = {name: value for name, value in {**columns, **changes}.items() if value is not None}
    buffer = io.BytesIO()
    pq.write_table(pa.table(kept), buffer)
    return buffer.getvalue()


def unreadable_files() -> Iterator[tuple[str, bytes]]:
    """Names and contents of files that can't be ingested at all."""
    for value in (None, 7, -0.5, True, "text", [], [squad()], {}, {"items": []}):
        yield "shape.json", as_bytes(value)
    for value in (None, 7, "text", {}, True, 1e999):
        yield "data.json", as_bytes({"data": value})
        yield "article.json", as_bytes({"data": [value]})
    for value in (None, 7, "text", {}):
        yield "paragraphs.json", as_bytes({"data": [{"paragraphs": value}]})
        yield "questions.json", as_bytes(squad(qas=value))
    for value in (None, 7, [], {}):
        yield "context.json", as_bytes(squad(question(), context=value))
        yield "title.json", as_bytes({"data": [{"title": value or [1], "paragraphs": []}]})
    for value in ([], {}, "", "\ud800", True):
        yield "id.json", as_bytes(squad(question(id=value)))
    for content in (
        b"",
        b" \n",
        b"\0" * 20,
        b"{",
        b"{}{}",
        b'{"data": [',
        VALID[:-1],
        VALID + b"x",
    ):
        yield "cut.json", content
        yield "cut.jsonl", content.replace(b"\n", b" ") + b'\n{"id'
    for content in (b"<html></html>", b"%PDF-1.7", b"PAR1", b"version https://git-lfs.github.com"):
        yield "other.json", content
        yield "other.jsonl", content
        yield "other.parquet", content
    for encoding in ("utf-16", "utf-16-le", "utf-32", "latin-1"):
        yield (
            "encoding.json",
            json.dumps(squad(question(id="é")), ensure_ascii=False).encode(encoding),
        )
    for pack in (gzip.compress, lzma.compress):
        yield "cut.json", pack(VALID)[:-9]
        yield "nested.json", pack(as_bytes({"data": 7}))
    yield "unknown.json", bz2.compress(VALID)
    yield "archive.json", archive(a=VALID)
    for changes in ({"question": None}, {"context": None}, {"id": [""]}):
        yield "rows.parquet", parquet(**changes)
    yield "rows.parquet", parquet()[:-5]
    yield "repeated.json", as_bytes(squad(question(), question()))
    yield "repeated.jsonl", 2 * (as_bytes(question(context=CONTEXT)) + b"\n")
    yield "control.json", as_bytes({"data": [{"title": "\x1b[31m", "paragraphs": "\0\x07"}]})
    yield "none.json", as_bytes({"data": []})
    yield "none.jsonl", b"\n\n"


def invalid_questions() -> Iterator[dict[str, Any]]:
    """Questions that are kept in the ledger as dropped, in files that are ingested."""
    for value in STRANGE:
        yield question(question=value) if value != "text" else question(question="\ud800")
        yield question(answers=value) if value != [] else question(answers=...)
        yield question(answers=[value])
        yield (
            question(answers=[{"text": "gold", "answer_start": value}])
            if value != 7
            else (question(answers=[{"text": "gold", "answer_start": 2**40}]))
        )
        yield question(answers=[{"text": value if value != "text" else "gild", "answer_start": 4}])
        if value is not None:
            yield question(is_impossible=value if value is not True else "yes")


UNREADABLE = list(unreadable_files())
INVALID = list(invalid_questions())


def test_there_are_over_a_hundred_cases() -> None:
    assert len(UNREADABLE) >= 80
    assert len(UNREADABLE) + len(INVALID) >= 130


@pytest.mark.parametrize("number", range(len(UNREADABLE)))
def test_unreadable_file_gives_one_sentence(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, content = UNREADABLE[number]
    file, out = tmp_path / name, tmp_path / "out"
    file.write_bytes(content)
    out.mkdir()
    with pytest.raises(UserError) as caught:
        ingest_file(out, file)
    message = str(caught.value)
    assert message.count(str(file)) == 1, message
    assert message.isprintable() and message.rstrip(")").endswith("."), message
    assert len(message) < 500, message
    monkeypatch.setattr(readers, "SHARD_BYTES", 1)
    with pytest.raises(UserError) as caught:
        ingest_file(out, file)
    assert str(caught.value) == message


@pytest.mark.parametrize("number", range(len(INVALID)))
def test_invalid_question_is_dropped_with_a_reason(tmp_path: Path, number: int) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps(squad(question(id="before"), INVALID[number], question(id="after"))))
    facts = ingest_file(tmp_path, file)
    assert (facts["questions"], facts["exact"], facts["dropped"]) == (3, 2, 1)
    ((_, ledger),) = questions_with_ledger(tmp_path)
    row = ledger.to_pylist()[1]
    assert row["id"] == "q1" and row["fault"]
    assert row["reason"].isprintable()
    assert re.search(r"field|answer \d|the (question|answer|context)|answer_start", row["reason"])


@pytest.mark.parametrize("name", ["own.json.gz", "own.json.xz", "own.json.zst"])
def test_plain_file_with_a_compressed_name_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(VALID)
    assert ingest_file(tmp_path, tmp_path / name)["exact"] == 1


LENIENT: list[dict[str, Any]] = [
    {"id": None},
    {"id": ...},
    {"is_impossible": None},
    {"is_impossible": 0},
    {"answers": [{"text": "gold", "answer_start": "4"}]},
]


@pytest.mark.parametrize("changes", LENIENT)
def test_small_deviations_are_read(tmp_path: Path, changes: dict[str, Any]) -> None:
    file = tmp_path / "own.json"
    content = squad(question(**changes))
    content["data"][0]["title"] = None
    file.write_text(json.dumps(content))
    assert ingest_file(tmp_path, file)["exact"] == 1


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
@pytest.mark.parametrize("name", ["own.json", "own.jsonl"])
def test_compressed_file_with_a_plain_name_is_read(tmp_path: Path, name: str, pack: Any) -> None:
    content = as_bytes(question(context=CONTEXT)) if name.endswith("l") else VALID
    (tmp_path / name).write_bytes(pack(content))
    assert ingest_file(tmp_path, tmp_path / name)["exact"] == 1
