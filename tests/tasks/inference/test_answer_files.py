"""Answers to the questions of files: rows, parts that survive kills, and what is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tasks.inference.answer_files as answer_files_module
from infra.errors import UserError
from infra.settings import settings
from tasks.inference.answer_files import answer_files, read_questions
from tasks.inference.predictor import Predictor
from tests.factories.logged_models import CONTEXT, save_untrained_model

OTHER = "The oak grows in the garden."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stage `fetch-model` with an untrained model."""
    folder = tmp_path_factory.mktemp("model")
    save_untrained_model(folder).rename(folder / "model")
    return folder


def question(id: Any, text: Any, context: str = CONTEXT, **more: Any) -> dict[str, Any]:
    return {"id": id, "question": text, "context": context, **more}


def write(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


@pytest.fixture
def answer(root: Path, tmp_path: Path, model: Path) -> Callable[..., list[dict[str, Any]]]:
    def answer(*files: Path, **options: Any) -> list[dict[str, Any]]:
        out = tmp_path / f"out-{len(list(tmp_path.glob('out-*')))}"
        out.mkdir()
        answer_files(out, files, model, "bidaf-made", "3", **options)
        return pq.read_table(out / "answers.parquet").to_pylist()

    return answer


def test_rows_are_the_answers_of_the_predictor(
    answer: Callable[..., list[dict[str, Any]]], tmp_path: Path, model: Path
) -> None:
    rows = answer(write(tmp_path / "a.jsonl", question(7, "Where?", title="Mills")))
    (expected,) = Predictor.load(model / "model").answer([("Where?", CONTEXT)])
    assert rows == [
        {
            **expected,
            "id": "7",
            "question": "Where?",
            "context": CONTEXT,
            "title": "Mills",
            "alternatives": [],
            "model": "bidaf-made",
            "version": "3",
        }
    ]


def test_every_format_is_read_without_answers(
    answer: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    squad = tmp_path / "a.json"
    paragraph = {"context": CONTEXT, "qas": [{"id": "a", "question": "Where?"}]}
    squad.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]}))
    lines = write(tmp_path / "b.jsonl", question("b", "Where?", answers=[]))
    table = tmp_path / "c.parquet"
    pq.write_table(pa.Table.from_pylist([question("c", "Where?")]), table)
    (tmp_path / "d.csv").write_text(f"id,q,text\nd,Where?,{CONTEXT}\n")
    columns = "question=q,context=text"
    rows = answer(squad, lines, table, tmp_path / "d.csv", columns=columns)
    assert [(row["id"], row["error"]) for row in rows] == [(id, "") for id in "abcd"]
    assert len({(row["answer"], row["probability"]) for row in rows}) == 1


def test_tasks_without_annotation_are_read(tmp_path: Path) -> None:
    """Those that were cancelled, too: training leaves them out, but they can be answered."""
    cancelled = {"was_cancelled": True, "result": []}
    data = {"text": CONTEXT, "question": "What?"}
    tasks = [{"id": 1, "data": data}, {"id": 2, "data": data, "annotations": [cancelled]}]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    asked = read_questions([tmp_path / "tasks.json"])
    assert [(item.id, [*item.titles]) for item in asked] == [("1", [CONTEXT]), ("2", [CONTEXT])]


def test_contexts_of_a_question_are_one_row(
    answer: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    first = [question("a", "Where?", CONTEXT, title="one"), question("b", "Who?", CONTEXT)]
    second = [question("a", "Where?", OTHER, title="two"), question("a", "Wo?", OTHER)]
    second.append(question("a", "Where?", OTHER, title="again"))
    rows = answer(
        write(tmp_path / "a.jsonl", *first), write(tmp_path / "b.jsonl", *second), top=400
    )
    assert [(row["id"], row["question"]) for row in rows] == [
        *(("a", "Where?"), ("b", "Who?"), ("a", "Wo?"))
    ]
    answers = [rows[0], *rows[0]["alternatives"]]
    assert {(own["context"], own["title"]) for own in answers} == {(CONTEXT, "one"), (OTHER, "two")}
    probabilities = [own["probability"] for own in answers]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) + rows[0]["no_answer_probability"] == pytest.approx(1)
    for own in answers:
        assert own["context"][own["start"] : own["end"]] == own["answer"]


def test_alternatives_follow_the_answer(
    answer: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    file = write(tmp_path / "a.jsonl", question("a", "Where?"))
    (one,), (three,) = answer(file), answer(file, top=3)
    assert len(three["alternatives"]) == 2
    assert {**three, "alternatives": []} == one
    spans = {(row["start"], row["end"]) for row in (three, *three["alternatives"])}
    assert len(spans) == 3


def test_unreadable_questions_have_their_error(
    answer: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    rows = answer(
        write(
            tmp_path / "a.jsonl",
            question("a", 5),
            question("b", "Where?", " "),
            question("c", "Where?", answers="hill"),
            question("d", "Where?"),
        )
    )
    errors = {row["id"]: row["error"] for row in rows}
    assert "found 5; it should be a valid string" in errors["a"]
    assert errors["b"] == "The context is empty. Provide some text."
    assert errors["c"] == errors["d"] == "", "answers are not needed"
    assert [row["answer"] == "" for row in rows] == [True, True, False, False]


def test_files_without_questions_are_refused(
    answer: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    empty = tmp_path / "a.json"
    empty.write_text(json.dumps({"data": [{"title": "t", "paragraphs": []}]}))
    with pytest.raises(UserError, match=r"No questions found in .*a\.json"):
        answer(empty)


def answer_in_process(root: Path, out: Path, file: Path, model: Path) -> None:
    """The target of a process that may be killed."""
    os.environ["BIDAFLOW_ROOT"] = str(root)
    answer_files_module.PART_QUESTIONS = 20
    out.mkdir(parents=True)
    answer_files(out, [file], model, "made", "1", 2)


def test_kills_change_nothing(root: Path, tmp_path: Path, model: Path) -> None:
    file = write(tmp_path / "a.jsonl", *(question(i, f"Where is mill {i}?") for i in range(500)))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    parts = settings().root.resolve() / "ray" / "killed"
    written = [0]
    for kill in range(6):
        out = tmp_path / f"attempt-{kill}" / "killed"
        process = context.Process(target=answer_in_process, args=(root, out, file, model))
        process.start()
        while kill < 5 and process.is_alive() and len(list(parts.glob("0*"))) <= written[-1]:
            time.sleep(0.001)
        if kill < 5:
            time.sleep(random.uniform(0, 0.02))
            process.kill()
        process.join(120)
        assert process.exitcode == (-signal.SIGKILL if kill < 5 else 0)
        written.append(len(list(parts.glob("0*"))))
    assert written == sorted(set(written)) and written[-1] == 25, "each attempt went on"
    whole = tmp_path / "whole"
    answer_in_process(root, whole, file, model)
    killed = (out / "answers.parquet").read_bytes()
    assert killed == (whole / "answers.parquet").read_bytes()
    ids = pq.read_table(whole / "answers.parquet")["id"].to_pylist()
    assert ids == [str(i) for i in range(500)]
