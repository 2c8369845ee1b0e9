"""Corrected answers: what is kept, and what is refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tasks.data.ingest import ingest_file
from tasks.data.ingested import Portion
from tasks.data.readers import read_articles
from tasks.data.splits import Exclusions, Shares, write_split
from tasks.datasets.catalog import SplitName
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.slices import guarded_slices
from tasks.evaluation.validation_parts import is_deciding
from tasks.serving import feedback
from tasks.serving.feedback import keep
from tasks.serving.schemas import Feedback
from tasks.text.vocabulary import Lexicon
from tests.factories.serving import OTHER_TEXT, QUESTION, client, serve_untrained
from tests.factories.split_files import new

CONTEXT = OTHER_TEXT["context"]
CORRECTION = {**OTHER_TEXT, "answer": "by the quay", "right": False, "version": "1"}


@pytest.fixture
def server(tmp_path: Path) -> TestClient:
    (tmp_path / "kept").mkdir()
    return client(serve_untrained(tmp_path / "versions"), feedback=tmp_path / "kept")


def test_feedback_is_data_to_train_on(server: TestClient, tmp_path: Path) -> None:
    for body in (CORRECTION, {**QUESTION, "answer": "", "right": True}):
        assert server.post("/feedback", json=body).status_code == 201
    file = tmp_path / "kept" / "feedback.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [row["right"] for row in rows] == [False, True]
    assert rows[0]["version"] == "1" and rows[0]["time"].endswith("+00:00")
    first, second = [paragraph for a in read_articles(file) for paragraph in a.paragraphs]
    (question,) = first.qas
    assert first.context == CONTEXT
    (answer,) = question.answers
    assert CONTEXT[answer.answer_start :].startswith(answer.text) and answer.text == "by the quay"
    assert not second.qas[0].answers


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"answer": "by the mill"},
            "body: the answer is not in the context, or not at `start`, or",
        ),
        ({"answer": "🏮"}, "body: the answer is not in the context, or not at `start`, or several"),
        ({"start": 3}, "body: the answer is not in the context, or not at `start`, or"),
        ({"start": -10}, "start: Input should be greater than or equal to 0"),
    ],
)
def test_answers_that_the_context_lacks_are_refused(
    change: dict[str, Any], sentence: str, server: TestClient, tmp_path: Path
) -> None:
    response = server.post("/feedback", json=CORRECTION | change)
    assert response.status_code == 422
    assert response.json()["error"].startswith(f"Invalid request: {sentence}")
    assert not (tmp_path / "kept" / "feedback.jsonl").exists()


def test_repeated_answer_is_kept_with_its_position(server: TestClient, tmp_path: Path) -> None:
    last = len(CONTEXT) - 1
    body = CORRECTION | {"answer": "🏮", "start": last}
    assert server.post("/feedback", json=body).status_code == 201
    row = json.loads((tmp_path / "kept" / "feedback.jsonl").read_text("utf-8"))
    assert row["answers"] == {"text": ["🏮"], "answer_start": [last]}


def test_file_is_bounded(
    server: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "LARGEST_FILE", 700)
    statuses = [server.post("/feedback", json=CORRECTION).status_code for _ in range(4)]
    assert statuses[0] == 201 and statuses[-1] == 507
    assert (tmp_path / "kept" / "feedback.jsonl").stat().st_size <= 700


def test_server_without_a_folder_keeps_nothing(tmp_path: Path) -> None:
    server = client(serve_untrained(tmp_path / "versions"))
    assert server.post("/explain", json=QUESTION).json()["keeps_feedback"] is False
    assert server.post("/feedback", json=CORRECTION).status_code == 404


def test_lines_of_several_writers_do_not_mix(tmp_path: Path) -> None:
    text = "word " * 20_000  # more than a pipe takes at once

    def append(number: int) -> None:
        keep(tmp_path, Feedback(question=str(number), context=text, answer="", right=True))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(64)))
    lines = (tmp_path / "feedback.jsonl").read_text("utf-8").splitlines()
    assert {int(json.loads(line)["question"]) for line in lines} == set(range(64))


def test_share_of_the_passages_decides_on_promotions(tmp_path: Path) -> None:
    """Mixed in, a third of the passages is in validation, where all of them decide, and is not
    trained on; a passage keeps its part as feedback grows."""
    validation: list[set[str]] = []
    for round_ in (1, 2):
        for number in range(60):
            context = f"House {round_ * (number // 2)} stands by the river."
            question = "What is by the river?" if number % 2 else "Where is it?"
            answer = {"answer": "House" if number % 2 else "by the river", "right": False}
            keep(tmp_path, Feedback(question=question, context=context, **answer))
        folder = new(tmp_path / f"round {round_}")
        ingest_file(new(folder / "feedback"), tmp_path / "feedback.jsonl")
        mixed = Portion(folder / "feedback", "feedback.jsonl", 3.0, divided=False)
        portions = [own_articles(folder), mixed]
        write_split(new(folder / "validation"), [portions[0], replace(mixed, weight=1.0)], *PART)
        apart = Exclusions(held_out=(folder / "validation",))
        facts = write_split(new(folder / "train"), portions, "train", PART[1], apart)
        assert facts["contexts_left_out"] == 0
        split, train = (load_split(folder / part) for part in ("validation", "train"))
        lexicon = Lexicon({"river": 2}, {}, lower_case=True)
        feedback = guarded_slices(split, lexicon)["feedback"]
        assert is_deciding(split)[feedback].all() and not is_deciding(split)[~feedback].all()
        assert not {*split.contexts} & {*train.contexts}
        own, weighted = feedback.sum(), guarded_slices(train, lexicon)["feedback"].sum()
        assert weighted == 3 * (60 * round_ - own)
        validation.append({text for text in split.contexts if "House" in text})
    assert 5 < len(validation[0]) < 15
    assert validation[0] <= validation[1]


PART: tuple[SplitName, Shares] = ("validation", Shares(validation=0.4))


def own_articles(folder: Path) -> Portion:
    """An ingested file with 20 articles and without feedback."""
    rows = [
        {"id": f"{n}", "title": f"{n}", "context": f"Bar {n} is open.", "question": "What is?"}
        for n in range(20)
    ]
    answered = [{**row, "answers": {"text": ["Bar"], "answer_start": [0]}} for row in rows]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answered))
    ingest_file(new(folder / "own"), folder / "own.jsonl")
    return Portion(folder / "own", "own.jsonl")


def test_without_validation_all_feedback_is_trained_on(tmp_path: Path) -> None:
    for number in range(9):
        keep(tmp_path, Feedback(question="?", context=f"Bar {number}", answer="Bar", right=True))
    ingest_file(new(tmp_path / "feedback"), tmp_path / "feedback.jsonl")
    portions = [own_articles(tmp_path), Portion(tmp_path / "feedback", "", divided=False)]
    assert write_split(new(tmp_path / "train"), portions, "train", Shares())["contexts"] == 29
