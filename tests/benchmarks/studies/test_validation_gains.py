"""The program of gains on validation, on two untrained models."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.common.trained import Trained
from benchmarks.studies import validation_gains
from tasks.data.negatives import negative_kind
from tasks.evaluation.evaluate import evaluate, load_split
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
    predictions = Trained(folders[0]).validation_predictions()
    threshold = best_threshold(split, predictions, 0.5)
    scores = evaluate(split, predictions, threshold)
    assert first["threshold"] == f"{threshold:.2f}"
    file = out / f"validation-{Trained(folders[0]).file_name}"
    table = pq.read_table(file)
    assert table["id"].to_pylist() == split.ids
    assert 100 * np.mean(table["f1_at_threshold"]) == pytest.approx(scores.scores.f1, rel=1e-5)
    facts = json.loads(table.schema.metadata[b"facts"])
    assert (facts["split"], facts["threshold"]) == ("validation", pytest.approx(threshold))
    (negatives,) = (f for f in out.glob("*.parquet") if f != file)
    ids = pq.read_table(negatives)["id"].to_pylist()
    assert ids == split.ids and not any(map(negative_kind, ids))
