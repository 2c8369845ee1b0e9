"""Answers in the formats that a user chooses, at files and addresses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem

from infra.errors import UserError
from tasks.inference.answer_files import SCHEMA
from tasks.inference.answer_formats import write_answers, write_uncertain

if TYPE_CHECKING:
    from tests.factories.object_store import ObjectStore


def row(id: str, answer: str, probability: float, error: str = "") -> dict[str, Any]:
    context = "An œuvre stands on the hill."
    start = context.index(answer) if answer else -1
    return {
        "id": id,
        "question": "Où?",
        "answer": answer,
        "context": context,
        "title": "t",
        "start": start,
        "end": start + len(answer) if answer else -1,
        "probability": probability,
        "no_answer_probability": 0.1,
        "alternatives": [],
        "model": "bidaf-made",
        "version": "3",
        "error": error,
    }


ROWS = [
    row("a", "hill", 0.9),
    row("b", "œuvre", 0.2),
    row("c", "", 0.4),
    row("d", "", 0.0, "The question is empty."),
]


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS, SCHEMA), tmp_path / "answers.parquet")
    return tmp_path / "answers.parquet"


def test_each_format_has_all_answers(answers: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    for name in ("a.parquet", "a.jsonl", "a.json"):
        write_answers(answers, str(out / name))
    assert pq.read_table(out / "a.parquet").to_pylist() == ROWS
    lines = (out / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert list(map(json.loads, lines)) == ROWS
    predictions = json.loads((out / "a.json").read_text(encoding="utf-8"))
    assert predictions == {"a": "hill", "b": "œuvre", "c": "", "d": ""}
    assert {file.name for file in out.iterdir()} == {"a.parquet", "a.jsonl", "a.json"}


def test_answers_are_written_to_an_address(answers: Path, store: ObjectStore) -> None:
    address = "s3://results/answers/may.parquet"
    write_answers(answers, address)
    files, path = FileSystem.from_uri(address)
    with files.open_input_file(path) as file:
        assert pq.read_table(io.BytesIO(file.read())).to_pylist() == ROWS


def test_unwritable_outputs_are_named(answers: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/a\.json can't be written to"):
        write_answers(answers, str(tmp_path / "file" / "a.json"))
    with pytest.raises(UserError, match=r"nowhere://a\.json can't be written to"):
        write_answers(answers, "nowhere://a.json")


def test_predictions_need_distinct_ids(tmp_path: Path) -> None:
    same = [row("a", "hill", 0.9), {**row("a", "", 0.9), "question": "Where?"}]
    pq.write_table(pa.Table.from_pylist(same, SCHEMA), tmp_path / "answers.parquet")
    with pytest.raises(UserError, match="several questions have the same id"):
        write_answers(tmp_path / "answers.parquet", str(tmp_path / "a.json"))
    assert not (tmp_path / "a.json").exists()


def test_least_probable_answers_become_tasks(answers: Path, tmp_path: Path) -> None:
    write_uncertain(answers, 2, str(tmp_path / "tasks.json"))
    first, second = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    assert (first["data"]["id"], second["data"]["id"]) == ("b", "c")
    assert first["data"]["question"] == "Où?"
    (prediction,) = first["predictions"]
    assert (prediction["model_version"], prediction["score"]) == ("bidaf-made 3", 0.2)
    (result,) = prediction["result"]
    assert (result["from_name"], result["to_name"], result["type"]) == ("answer", "text", "labels")
    value = result["value"]
    assert value == {"start": 3, "end": 8, "text": "œuvre", "labels": ["Answer"]}
    assert first["data"]["text"][value["start"] : value["end"]] == "œuvre"
    assert second["predictions"][0]["result"] == [], "no answer"
