"""The table of published scores, from small trainings with an untrained model."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import published_table
from benchmarks.published_table import gain_rows
from benchmarks.trainings.answered import Answered
from benchmarks.trainings.rows import rows_of
from benchmarks.trainings.trained import Trained
from tasks.evaluation.evaluate import evaluate, load_split
from tasks.evaluation.metrics import best_threshold
from tasks.training.inputs import TrainingData
from tests.factories.finished_trainings import (
    predictions_of,
    write_manifest,
    write_stages,
    write_training,
)
from tests.factories.training_data import small

EPOCH = {"epochs": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    return write_stages(tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="module")
def trainings(data: TrainingData) -> list[Path]:
    return [write_training(data, str(seed), seed=seed, **EPOCH) for seed in (0, 1)]


def publish(out: Path, trainings: list[Path], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The result that the program writes."""
    monkeypatch.setattr(sys, "argv", ["published_table", str(out), *map(str, trainings)])
    published_table.main()
    result: dict[str, Any] = json.loads((out / "published.json").read_text(encoding="utf-8"))
    return result


def test_writes_one_row_for_two_seeds(
    data: TrainingData, trainings: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = publish(tmp_path, trainings, monkeypatch)
    everything, within = result["table"]
    assert (everything["variant"], everything["seeds"]) == ("char", "0, 1")
    assert (everything["NLL"], within["NLL"]) == ("3.25", "3.50")
    assert within["published EM / F1 / NLL / AvNA"] == "58.14 / 61.26 / 2.97 / 66.78"
    assert data.validation is not None
    dev, validation = load_split(data.dev.ingested), load_split(data.validation.ingested)
    expected, argmax, thresholds = [], [], []
    for variant in (Trained(folder).variant for folder in trainings):
        answers = predictions_of(data, variant, "dev")
        of_validation = predictions_of(data, variant, "validation")
        thresholds.append(best_threshold(validation, of_validation, 0.5))
        expected.append(evaluate(dev, answers, thresholds[-1]).scores)
        argmax.append(evaluate(dev, answers).scores)
    assert everything["threshold"] == ", ".join(f"{threshold:.2f}" for threshold in thresholds)
    for number, column in enumerate(("em", "f1", "avna")):
        title = {"em": "EM", "f1": "F1", "avna": "AvNA"}[column]
        mean = np.mean([getattr(scores, column) for scores in expected])
        assert float(everything[title]) == pytest.approx(mean, abs=0.006)
        mean = np.mean([getattr(scores, column) for scores in argmax])
        shown = everything["argmax EM / F1 / AvNA"].split(" / ")[number]
        assert float(shown) == pytest.approx(mean, abs=0.006)
    assert float(everything["oracle F1"]) >= float(everything["F1"])
    assert [own["config"]["training"]["seed"] for own in result["trainings"]] == [0, 1]
    assert "| char | – | 1 | 1, 1 | 0, 1 |" in (tmp_path / "published.md").read_text()
    assert (tmp_path / "epochs.png").stat().st_size > 1000


def answered(f1: float) -> Answered:
    """Answers with this F1 (0 to 1) to two dev questions, and 1 to one that is too long."""
    none, all_three = np.zeros(3), np.ones(3, bool)
    return Answered(
        0.0,
        margin=np.full(3, -1.0),
        span_em=none,
        span_f1=np.array([f1, f1, 1]),
        no_answer_em=none,
        has_span=all_three,
        answerable=all_three,
        within=np.array([True, True, False]),
        article=np.arange(3),
    )


def test_gains_of_all_pairs_with_equal_epochs(data: TrainingData) -> None:
    changes: dict[str, dict[str, Any]] = {
        "a": {"epochs": 1},
        "b": {"epochs": 1, "schedule": "linear"},
        "c": {"epochs": 2},
    }
    folders = [write_manifest(data, f"gain-{n}", small(**c)) for n, c in changes.items()]
    rows = rows_of([Trained(folder) for folder in folders])
    scores = {row.title: [answered(f1)] for row, f1 in zip(rows, (0.25, 0.75, 1), strict=True)}
    (everything,), (within,) = (gain_rows(rows, scores, limit) for limit in (False, True))
    pair = ("char, schedule linear, 1 epochs", "char, schedule constant, 1 epochs")
    assert (everything["variant"], everything["over"]) == pair
    assert (everything["questions"], within["questions"]) == ("3", "2")
    assert everything["F1 gain, 95 %"].startswith("+33.33")
    assert within["F1 gain, 95 %"] == "+50.00 (+50.00 to +50.00) *"
    assert within["p (Holm)"] == "0.000", "both questions gain as much"


def test_refuses_trainings_that_can_not_be_compared(
    data: TrainingData, trainings: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed that is given twice; another dev split, or another limit of tokens."""
    other = write_stages(tmp_path / "other")
    shutil.rmtree(other.dev.ingested)
    shutil.copytree(other.train.ingested, other.dev.ingested)
    limit = write_manifest(data, "limit", small(**EPOCH, max_context_tokens=300))
    for refused, message in (
        (trainings[1], "Two trainings are char, 1 epochs, seed 1"),
        (write_manifest(other, "0", small(**EPOCH)), "different dev splits"),
        (limit, r"\(300, 400\)"),
    ):
        with pytest.raises(SystemExit, match=message):
            publish(tmp_path / "out", [trainings[1], refused], monkeypatch)
