"""The gain of averaged weights at the checkpoints of a training."""

import json
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks.studies import averaged_weights
from benchmarks.trainings.trained import Trained
from models.trainer import Trainer
from tasks.inference.predictor import Predictor
from tasks.training.checkpoints import TrainingRecord, save_checkpoint
from tests.factories.finished_trainings import write_stages, write_training


def write_checkpoint(folder: Path, trained: Path, step: int) -> Path:
    """A checkpoint whose averaged weights are those saved, and whose raw weights are zero."""
    folder.mkdir()
    model = Predictor.load(trained / "model").model
    trainer = Trainer(model, Trained(trained).training.variant.training)
    with torch.no_grad():
        for weight in trainer.averages.live.values():
            weight.zero_()
    trainer.step = step
    history = json.loads((trained / "history.json").read_text(encoding="utf-8"))
    save_checkpoint(folder, trainer, TrainingRecord(history=history), None)
    return folder


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    folder = write_training(write_stages(tmp_path / "root"), "0")
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    (folder / "history.json").write_text(json.dumps([{**history[0], "step": 2}]), encoding="utf-8")
    return folder


def run(monkeypatch: pytest.MonkeyPatch, *arguments: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["averaged_weights", *map(str, arguments)])
    averaged_weights.main()


def test_compares_both_kinds_of_weights(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, early = (write_checkpoint(tmp_path / f"{step}", trained, step) for step in (4, 1))
    out = tmp_path / "out"
    run(monkeypatch, out, trained, late, early)
    rows = json.loads((out / "averaged-weights.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["step"], row["epoch"]) for row in rows] == [("1", "0.50"), ("4", "2")]
    history = json.loads((trained / "history.json").read_text(encoding="utf-8"))
    assert rows[0]["F1 with"] == f"{history[0]['validation/f1']:.2f}"
    answers = pq.read_table(out / "averaged-weights.parquet")
    for kind in ("raw", "averaged"):
        own = answers.filter((pc.field("weights") == kind) & (pc.field("step") == 4))
        column = "F1 with" if kind == "averaged" else "F1 without averaging"
        assert f"{100 * pc.mean(own['f1']).as_py():.2f}" == rows[1][column]
    raw = answers.filter(pc.field("weights") == "raw")["no_answer_probability"].to_pylist()
    averaged = answers.filter(pc.field("weights") == "averaged")["no_answer_probability"]
    assert raw != averaged.to_pylist()
    assert (out / "averaged-weights.png").exists()


def test_refuses_other_checkpoints(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="other is not a checkpoint"):
        run(monkeypatch, tmp_path / "out", trained, tmp_path / "other")
    checkpoint = write_checkpoint(tmp_path / "checkpoint", trained, 1)
    (trained / "history.json").write_text(json.dumps([{"validation/f1": -1.0}]), encoding="utf-8")
    with pytest.raises(SystemExit, match="is not a checkpoint of"):
        run(monkeypatch, tmp_path / "out", trained, checkpoint)
