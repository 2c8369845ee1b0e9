"""The table of published scores, from small trainings with an untrained model."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import published_table
from benchmarks.published_table import Evaluated, gain_rows
from benchmarks.trainings.answered import read_answers
from benchmarks.trainings.rows import rows_of
from benchmarks.trainings.trained import Trained, Training
from tasks.data.negatives import negative_kind
from tasks.evaluation.evaluate import evaluate, load_split
from tasks.evaluation.metrics import best_threshold
from tasks.training.inputs import TrainingData
from tests.factories.finished_trainings import (
    span_answers,
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


def test_writes_one_row_for_two_seeds_and_no_text(
    data: TrainingData, trainings: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = publish(tmp_path, trainings, monkeypatch)
    everything, within = result["table"]
    assert (everything["variant"], everything["seeds"]) == ("char", "0, 1")
    assert (everything["NLL"], within["NLL"]) == ("3.25", "3.50")
    assert within["published EM / F1 / NLL / AvNA"] == "58.14 / 61.26 / 2.97 / 66.78"
    dev = load_split(data.dev.ingested)
    expected, argmax = [], []
    for folder in trainings:
        trained = Trained(folder)
        assert data.validation is not None
        validation = load_split(data.validation.ingested)
        threshold = best_threshold(validation, trained.predictions("validation"), 0.5)
        answers = trained.predictions("dev")
        expected.append(evaluate(dev, answers, threshold).scores)
        argmax.append(evaluate(dev, answers).scores)
        file = tmp_path / trained.training.file_name
        assert published_table.threshold_of(file, 0.5) == pytest.approx(threshold)
    for column in ("em", "f1", "avna"):
        title = {"em": "EM", "f1": "F1", "avna": "AvNA"}[column]
        mean = np.mean([getattr(scores, column) for scores in expected])
        assert float(everything[title]) == pytest.approx(mean, abs=0.006)
    for number, column in enumerate(("em", "f1", "avna")):
        mean = np.mean([getattr(scores, column) for scores in argmax])
        shown = everything["argmax EM / F1 / AvNA"].split(" / ")[number]
        assert float(shown) == pytest.approx(mean, abs=0.006)
    assert float(everything["oracle F1"]) >= float(everything["F1"])
    table = pq.read_table(tmp_path / result["trainings"][0]["answers"])
    assert table["id"].to_pylist() == dev.ids
    assert [str(t) for t in table.schema.types].count("string") == 1, "only the id is text"
    assert "| char | – | 1 | 1, 1 | 0, 1 |" in (tmp_path / "published.md").read_text()


def test_trainings_are_added_one_after_the_other(
    trainings: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the storage root of the earlier one is gone."""
    together = publish(tmp_path / "together", trainings, monkeypatch)
    out = tmp_path / "out"
    publish(out, trainings[:1], monkeypatch)
    moved = trainings[0].rename(trainings[0].with_name("moved"))
    added = publish(out, trainings[1:], monkeypatch)
    moved.rename(trainings[0])
    assert added["table"] == together["table"]
    for file in out.glob("*char-*.parquet"):  # names do not matter
        file.rename(file.with_name(file.name.replace("char-", "earlier-")))
    assert publish(out, [], monkeypatch)["table"] == together["table"]


def test_threshold_is_not_chosen_on_negatives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_stages(tmp_path, negatives=True)
    folder = write_training(data, "0", **EPOCH)
    (row, _) = publish(tmp_path / "out", [folder], monkeypatch)["table"]
    assert data.validation is not None
    answered = read_answers(tmp_path / "out" / f"validation-{Trained(folder).training.file_name}")
    people = np.array([negative_kind(id) is None for id in answered.ids])
    assert 0 < people.sum() < len(people)
    assert float(row["threshold"]) == pytest.approx(answered.take(people).threshold(0.5), abs=0.006)


def evaluated(training: Training, f1: float) -> Evaluated:
    """A training with this F1 (0 to 1) on two dev questions, and 1 on one that is too long."""
    answered = span_answers(dict.fromkeys("abc", -1.0), "abc", training.facts)
    scores = {"span_f1": np.array([f1, f1, 1]), "within": np.array([True, True, False])}
    return Evaluated(replace(answered, **scores), 0.0)


def test_gains_of_all_pairs_with_equal_epochs(data: TrainingData) -> None:
    changes = {"a": {"epochs": 1}, "b": {"epochs": 1, "schedule": "linear"}, "c": {"epochs": 2}}
    folders = [write_manifest(data, f"gain-{n}", small(**c)) for n, c in changes.items()]
    rows = rows_of([Trained(folder).training for folder in folders])
    scores = {
        row.title: [evaluated(row.trainings[0], f1)]
        for row, f1 in zip(rows, (0.25, 0.75, 1), strict=True)
    }
    (everything,), (within,) = (gain_rows(rows, scores, limit) for limit in (False, True))
    pair = ("char, schedule linear, 1 epochs", "char, schedule constant, 1 epochs")
    assert (everything["variant"], everything["over"]) == pair
    assert (everything["questions"], within["questions"]) == ("3", "2")
    assert everything["F1 gain, 95 %"].startswith("+33.33")
    assert within["F1 gain, 95 %"] == "+50.00 (+50.00 to +50.00) *"
    assert within["p (Holm)"] == "0.001"


def test_refuses_data_of_one_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_training(write_stages(tmp_path, unanswerable=False), "0")
    with pytest.raises(SystemExit, match="no threshold can be chosen, because"):
        publish(tmp_path / "out", [folder], monkeypatch)


def test_refuses_a_model_with_other_scores_than_logged(
    trainings: list[Path], tmp_path: Path
) -> None:
    history = trainings[0] / "history.json"
    history.write_text(json.dumps([{"validation/f1": 99.0}]))
    with pytest.raises(SystemExit, match=r"the saved model has F1 .* training logged 99\.00"):
        published_table.add_answers(tmp_path, Trained(trainings[0]), 0.5)


def test_refuses_trainings_before_models_predict(
    data: TrainingData, trainings: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed that is given twice; another dev split, or limit of tokens, than in the results."""
    out = tmp_path / "out"
    with pytest.raises(SystemExit, match="Two trainings are char, 1 epochs, seed 1"):
        publish(out, [trainings[1]] * 2, monkeypatch)
    assert not list(out.iterdir())
    publish(out, trainings[1:], monkeypatch)
    other = write_stages(tmp_path / "other", negatives=True)
    shutil.rmtree(other.dev.ingested)
    shutil.copytree(other.train.ingested, other.dev.ingested)
    before = sorted(out.iterdir())
    for refused, message in (
        (write_manifest(other, "0", small(**EPOCH)), "different dev splits"),
        (write_manifest(data, "limit", small(**EPOCH, max_context_tokens=300)), r"\(300, 400\)"),
    ):
        (refused / "model").mkdir()
        config = refused / "model" / "config.json"
        config.write_text(json.dumps({"allow_no_answer": True}), encoding="utf-8")
        with pytest.raises(SystemExit, match=message):
            publish(out, [refused], monkeypatch)
        assert sorted(out.iterdir()) == before
