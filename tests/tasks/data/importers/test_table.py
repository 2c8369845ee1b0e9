"""Every importer: a file of 200 questions, with a twentieth of each defect."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from infra.errors import UserError
from tasks.data.importers.table import IMPORTERS, SQUAD, parse_columns
from tasks.data.ingest import ingest_file
from tasks.data.readers import read_shards
from tests.factories.question_formats import (
    FORMATS,
    WITHOUT_TEXT,
    questions,
    squad,
    utf16,
)

EMOJI = 20  # every so many contexts have one, and so do the two questions about each


def emoji(number: int) -> str:
    return "🛠️ " if number % EMOJI == 0 else ""


def ingested(folder: Path, content: bytes, **options: Any) -> tuple[dict[str, Any], dict[Any, Any]]:
    """The facts about a file, and the starts of the answers to each question, by context."""
    file = folder / "own.json"
    file.write_bytes(content)
    facts = ingest_file(folder, file, **options)
    contexts = pq.read_table(folder / "contexts.parquet")["text"].to_pylist()
    rows = pq.read_table(folder / "questions.parquet").to_pylist()
    return facts, {
        (contexts[row["context_id"]], row["question"]): [a["start"] for a in row["answers"]]
        for row in rows
        if row["span_start"] >= 0
    }


@pytest.mark.parametrize("kind", FORMATS)
def test_format_is_recognised_and_read(tmp_path: Path, kind: str) -> None:
    name, shape, encode = FORMATS[kind]
    asked = questions()
    absent = [q._replace(start=None, text="") if n % 20 == 7 else q for n, q in enumerate(asked)]
    facts, starts = ingested(tmp_path, encode(shape(absent)))
    answered = [q for q in absent if q.start is not None]
    assert starts == {(q.context, q.question): [q.start] for q in answered}
    is_only_answerable = kind.startswith(("mrqa", "tydi"))
    assert facts["read_as"][0].startswith(f"read as {name}: 2") or kind == "mrqa"
    counts = (facts["exact"], facts["impossible"], facts["dropped"])
    assert counts == ((190, 0, 0) if is_only_answerable else (190, 10, 0))


# NewsQA's offsets are code points, TyDi's bytes, and their files have no texts to check them by.
@pytest.mark.parametrize("kind", sorted(FORMATS.keys() - {"newsqa", "tydi", "tydi-columns"}))
def test_defects_of_a_twentieth_each(tmp_path: Path, kind: str) -> None:
    """Of 200 questions, 10 count UTF-16 units, 10 have no answer, and 10 have a wrong one."""
    _, shape, encode = FORMATS[kind]
    asked = questions(emoji)
    changed = []
    for number, q in enumerate(asked):
        if number % 20 == 7:
            changed.append(q._replace(start=None, text=""))
        elif number % 20 == 9:
            wrong = (
                {"start": 5000} if kind in WITHOUT_TEXT or kind == "newsqa" else {"text": "Nobody"}
            )
            changed.append(q._replace(**wrong))
        else:
            changed.append(utf16(q))
    facts, starts = ingested(tmp_path, encode(shape(changed)))
    expected = {
        (q.context, q.question): [q.start]
        for number, q in enumerate(asked)
        if number % 20 not in (7, 9)
    }
    assert starts == expected
    assert (facts["exact"], facts["dropped"]) == (180, 10)
    assert facts["read_as"][-1] == "offsets are UTF-16 code units: 10 answers were moved"


def test_cancelled_and_rejected_ones_are_counted(tmp_path: Path) -> None:
    _, shape, encode = FORMATS["label-studio"]
    tasks = shape(questions())
    for number in range(0, 40, 10):
        tasks[number]["annotations"][0]["was_cancelled"] = True
    tasks[1]["annotations"] = []
    facts, _ = ingested(tmp_path, encode(tasks))
    assert facts["read_as"] == [
        "read as Label Studio JSON: 200 tasks, 4 cancelled, 1 without annotation"
    ]
    rejected = FORMATS["prodigy"][1](questions())
    for number in range(3):
        rejected[number]["answer"] = "reject"
    facts, _ = ingested(tmp_path, FORMATS["prodigy"][2](rejected))
    assert facts["read_as"][0].startswith(
        "read as Prodigy JSON Lines: 200 texts, 3 left out (answer"
    )


def test_label_is_the_question_without_one(tmp_path: Path) -> None:
    entry = {"text": "The gold bar", "label": [[4, 8, "What?"], [9, 12, "Which?"], [0, 3, "What?"]]}
    facts, starts = ingested(
        tmp_path, json.dumps(entry).encode() + b"\n" + b'{"text": "x", "label": []}'
    )
    context = "The gold bar"
    assert starts == {(context, "What?"): [4, 0], (context, "Which?"): [9]}
    assert "2 texts, 2 without an id" in facts["read_as"][0]


def test_columns_name_the_fields_of_tasks(tmp_path: Path) -> None:
    tasks = FORMATS["label-studio"][1](asked := questions())
    for task in tasks:
        data = task["data"]
        task["data"] = {"id": data["id"], "query": data["question"], "body": data["text"]}
    _, starts = ingested(
        tmp_path, json.dumps(tasks).encode(), columns="question=query,context=body"
    )
    assert starts == {(q.context, q.question): [q.start] for q in asked}


TEXT = "The gold bar"
SPAN = {"span_start": 4, "span_end": 8, "span_text": "gold"}


def duorc(**changes: Any) -> dict[str, Any]:
    question = {"id": "q", "question": "What?", "answers": ["gold"], "no_answer": False} | changes
    return {"id": "m", "title": "Bars", "plot": TEXT, "qa": [question]}


def newsqa_row(question: str, **ranges: str) -> dict[str, Any]:
    return {"story_id": "s", "story_text": TEXT, "question": question, **ranges}


COQA = {
    "id": "d",
    "story": TEXT,
    "questions": [{"input_text": f"Is it {n}?", "turn_id": n} for n in range(2)],
    "answers": [SPAN | {"turn_id": n, "input_text": text} for n, text in enumerate(["Yes", "4"])],
}
CUAD = {
    "id": "q",
    "question": "Highlight the parts (if any) of this contract",
    "answers": [{"text": "gold", "answer_start": 4}, {"text": "bar", "answer_start": 9}],
}
CASES: dict[str, tuple[Any, list[list[int]], str]] = {
    "duorc": (
        [duorc(), duorc(id="b", answers=["lead"]), duorc(id="c", no_answer=True, answers=[])],
        [[4]],
        "3 plots, 1 without answer, 1 left out (the text does not have the answer)",
    ),
    "newsqa-table": (
        [
            newsqa_row("What?", answer_char_ranges="4:9|None"),
            newsqa_row("Which?", answer_token_ranges="2:3"),
            newsqa_row("Why?", answer_token_ranges="None"),
        ],
        [[4], [9]],
        "3 rows, 3 without an id (a digest of context and question is the id), 1 without answer",
    ),
    "rows": (
        [
            {"id": n, "context": f"{TEXT} of gold", "question": f"{n}?", "answer": "gold"}
            for n in "ab"
        ]
        + [{"id": "c", "context": TEXT, "question": "c?", "answer": "bar", "answer_start": 9}],
        [[4], [4], [9]],
        "3 rows, 2 answers without a start (the first occurrence counts)",
    ),
    "coqa": ({"data": [COQA]}, [[4]], "1 dialogs, 1 left out (yes or no)"),
    "cuad": (
        {"data": [{"title": "c", "paragraphs": [{"context": TEXT, "qas": [CUAD]}]}]},
        [[4, 9]],
        "1 articles (of several spans",
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_small_files_of_other_formats(tmp_path: Path, kind: str) -> None:
    content, expected, sentence = CASES[kind]
    facts, starts = ingested(tmp_path, json.dumps(content).encode())
    assert list(starts.values()) == expected
    assert sentence in facts["read_as"][0]


@pytest.mark.parametrize("kind", [name for name in FORMATS if name not in ("squad", "rows")])
def test_malformed_record_gives_a_sentence(tmp_path: Path, kind: str) -> None:
    _, shape, encode = FORMATS[kind]
    content = shape(questions()[:2])
    records = content["data"] if isinstance(content, dict) else content
    broken: list[Callable[[dict[str, Any]], Any]] = [
        lambda record: record.update(dict.fromkeys(record, 7)),
        lambda record: record.clear(),
    ]
    for damage in broken:
        damage(records[-1])
        (tmp_path / "own.json").write_bytes(encode(content))
        with pytest.raises(UserError, match=r"own\.json: \w+ [23]"):
            ingest_file(tmp_path, tmp_path / "own.json")


def test_shards_travel_to_other_processes(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_bytes(json.dumps(squad(questions())).encode())
    (shard,) = read_shards(file)
    sent = pickle.loads(pickle.dumps(shard))
    assert sent.importer is SQUAD
    assert list(sent.entries()) == list(shard.entries())
    assert all(pickle.loads(pickle.dumps(importer)) is importer for importer in IMPORTERS)


def test_unknown_columns_are_refused() -> None:
    assert parse_columns("question=my q, context = text") == {"question": "my q", "context": "text"}
    for text in ("q", "query=q", "question="):
        with pytest.raises(ValueError, match="is not FIELD=COLUMN"):
            parse_columns(text)
