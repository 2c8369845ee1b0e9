"""Slices by question word and length, and questions with words that a vector set lacks."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from tasks.embeddings.formats.select import packaged_words
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.slices import (
    bucket_names,
    by_length,
    has_oov_word,
    question_word,
    questions_with_oov_words,
    scores_outside_glove,
)
from tasks.reports.error_report import report_errors
from tests.factories.runs import untrained_run
from tests.factories.splits import ingest, write_split
from tests.factories.tracking_store import parent_run, refusing_metrics


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("What year was it?", "what"),
        ("In which year?", "which"),
        ("To WHOM did he speak when he came?", "who"),
        ("Whose?", "who"),
        ("How much is it?", "how many"),
        ("How does it work?", "how"),
        ("Name the showhow.", "other"),
        ("", "other"),
    ],
)
def test_finds_the_question_word(question: str, word: str) -> None:
    assert question_word(question) == word


def test_lengths_fall_into_named_buckets() -> None:
    assert bucket_names([1, 2, 5]) == ["1", "2", "3–5", "over 5"]
    assert bucket_names([100, 150]) == ["up to 100", "101–150", "over 150"]
    labels, names = by_length(np.array([0, 1, 2, 3, 5, 6, -1]), [1, 2, 5])
    assert labels.tolist() == ["1", "1", "2", "3–5", "3–5", "over 5", ""]
    assert names == bucket_names([1, 2, 5])


def test_lookup_normalizes_case_and_quotes() -> None:
    known = {"the", "owl", '"', "n't", "do"}
    assert not has_oov_word("The “Owl” don't", known)
    assert has_oov_word("the owls", known)
    assert not has_oov_word("", known)


def test_questions_are_divided_by_known_words(tmp_path: Path) -> None:
    folder = ingest(tmp_path / "split", ("An owl.", ["Who is Zorblaxia?", "Who is an owl?"]))
    assert questions_with_oov_words(load_split(folder), packaged_words()).tolist() == [True, False]


def test_runs_log_scores_outside_glove(root: Path, tmp_path: Path) -> None:
    split = write_split(new_folder(tmp_path / "split"))
    run = untrained_run(tmp_path / "run", split, [(0, 1)] * 4, "char", ["ada", "wrote"])
    uri = f"sqlite:///{root}/mlflow.db"
    run_id = parent_run("flow-run")
    facts = {"variant": "char", "run_url": None, "run_id": run_id, "epoch": 2}
    (run / "manifest.json").write_text(json.dumps({"facts": facts}))
    history = [{"epoch": epoch, "step": 10 * epoch} for epoch in (1, 2, 3)]
    (run / "history.json").write_text(json.dumps(history))
    model = json.loads((run / "model" / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(model["variant"]))
    with refusing_metrics(root / "mlflow.db"), pytest.raises(MlflowException):
        report_errors(new_folder(tmp_path / "failed"), "made", run, split)
    report_errors(new_folder(tmp_path / "out"), "made", run, split)
    answers = pq.read_table(run / "predictions.parquet").to_pylist()
    outside = answers[2:]  # GloVe lacks "≈" and "𝔘x"
    client = MlflowClient(uri)
    for name in ("em", "f1"):
        (point,) = client.get_metric_history(run_id, f"dev/{name}_outside_glove")
        expected = 100 * sum(answer[name] for answer in outside) / len(outside)
        assert (point.step, point.value) == (20, pytest.approx(expected))
    assert client.get_run(run_id).data.metrics["dev/questions_outside_glove"] == len(outside) == 2
    everywhere = scores_outside_glove(
        load_split(split), {"em": np.ones(4), "f1": np.ones(4)}, set()
    )
    assert everywhere == {
        "dev/questions_outside_glove": 4.0,
        "dev/em_outside_glove": 100.0,
        "dev/f1_outside_glove": 100.0,
    }


def new_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
