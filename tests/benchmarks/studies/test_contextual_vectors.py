"""The rows of the table of contextual vectors."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.comparison import Compared
from benchmarks.studies.contextual_vectors import Cell, row


def trained(folder: Path, variant: str, f1: float, seconds: float) -> Cell:
    """Two epochs of so many seconds; the first reaches half of F1, the second all of it (0 to 1) in
    each of 40 questions."""
    folder.mkdir()
    pq.write_table(pa.table({"f1": [f1] * 40}), folder / "predictions.parquet")
    pq.write_table(pa.table({"context_id": np.arange(40) // 4}), folder / "questions.parquet")
    history = [
        {
            "seconds": epoch * seconds,
            "dev/f1": 50 * epoch * f1,
            "examples_per_second": 100.0,
            "peak_memory_bytes": 3 << 30,
        }
        for epoch in (1, 2)
    ]
    (folder / "history.json").write_text(json.dumps(history), encoding="utf-8")
    return Cell("glove-6b-50d", [Compared(variant, folder, {"dev": folder})])


def test_rows_compare_equal_epochs_and_equal_minutes(tmp_path: Path) -> None:
    char = trained(tmp_path / "char", "char", 0.5, 60)
    elmo = trained(tmp_path / "char-elmo", "char-elmo", 0.8, 90)
    scored = {"dev": np.arange(40) < 10}
    first, second = (row(own, char, scored) for own in (char, elmo))
    assert first["dev: gain, 95 %"] == "reference"
    assert second["dev (10): F1"] == "80.00" and second["dev: gain, 95 %"].startswith("+30.00")
    assert first["all: F1 within 2.0 minutes"] == "50.00"
    assert second["all: F1 within 2.0 minutes"] == "40.00"  # its first epoch only
    assert second["minutes"] == "3.0" and second["peak memory of a worker, GiB"] == "3.0"


def test_no_epoch_within_the_minutes_has_no_score(tmp_path: Path) -> None:
    slow = trained(tmp_path / "slow", "char-elmo", 0.8, 300)
    assert slow.f1_within([299]) == "–"
    assert float(slow.f1_within([300])) == pytest.approx(40)
