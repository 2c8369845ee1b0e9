"""The program of gains on validation, on two untrained models."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.studies import validation_gains
from benchmarks.trainings.trained import Trained
from tasks.data.negatives import negative_kind
from tasks.evaluation.evaluate import Evaluation, EvaluationSplit, evaluate, load_split
from tasks.evaluation.metrics import best_threshold
from tests.factories.finished_trainings import write_stages, write_training


def test_compares_trainings_with_other_negatives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, swaps = (write_stages(tmp_path / name, negatives=name == "b") for name in "ab")
    folders = [write_training(data, "0", epochs=1) for data in (plain, swaps)]
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["validation_gains", str(out), *map(str, folders)])
    validation_gains.main()
    result = json.loads((out / "validation.json").read_text(encoding="utf-8"))
    assert plain.validation is not None and swaps.validation is not None
    split, other = (load_split(data.validation.ingested) for data in (plain, swaps))
    assert len(other) > len(split)
    first, second = result["rows"]
    assert first["questions"] == second["questions"] == str(len(split))
    assert second["settings"].endswith("negatives 12 swap")
    predictions = Trained(folders[0]).predictions("validation")
    threshold = best_threshold(split, predictions, 0.5)
    scores = evaluate(split, predictions, threshold)
    assert first["threshold"] == f"{threshold:.2f}"
    assert float(first["F1 of each seed"]) == pytest.approx(weighted_f1(scores, split), abs=0.006)
    file = out / f"validation-{Trained(folders[0]).training.file_name}"
    table = pq.read_table(file)
    assert table["id"].to_pylist() == split.ids
    assert json.loads(table.schema.metadata[b"facts"])["split"] == "validation"
    (negatives,) = (f for f in out.glob("*.parquet") if f != file)
    ids = pq.read_table(negatives)["id"].to_pylist()
    assert ids == other.ids and any(map(negative_kind, ids))
    again = tmp_path / "again"
    files = [str(file), str(negatives)]
    monkeypatch.setattr(sys, "argv", ["validation_gains", str(again), *files])
    validation_gains.main()
    rows = json.loads((again / "validation.json").read_text(encoding="utf-8"))["rows"]
    assert rows == [first, second], "files of answers stand for trainings that are gone"


def weighted_f1(evaluation: Evaluation, split: EvaluationSplit) -> float:
    """F1 (percent), weighted to half of unanswerable questions."""
    f1 = np.array([question.f1 for question in evaluation.questions])
    return 50 * (f1[split.answerable].mean() + f1[~split.answerable].mean())
