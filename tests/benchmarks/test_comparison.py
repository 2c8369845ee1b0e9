"""Which trainings benchmarks.comparison puts into one table."""

import json
from pathlib import Path

from benchmarks.comparison import Compared, newest_comparable


def trained(folder: Path, variant: str, dev: str, epochs: int) -> Compared:
    """A training with this number of epochs, scored on the split with this name."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"training": {"epochs": epochs}}), "utf-8")
    return Compared(variant, folder, {"dev": folder.parent / dev})


def test_table_keeps_newest_comparable_run_per_variant(tmp_path: Path) -> None:
    others = [
        trained(tmp_path / "1", "baseline", "other", 2),
        trained(tmp_path / "2", "char", "dev", 1),
        trained(tmp_path / "3", "baseline", "dev", 2),
    ]
    baseline = trained(tmp_path / "4", "baseline", "dev", 2)
    char = trained(tmp_path / "5", "char", "dev", 2)
    assert newest_comparable([*others, baseline, char]) == [baseline, char]
