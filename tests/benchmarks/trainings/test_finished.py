"""Which comparisons under the root are collected."""

import json
from pathlib import Path

from benchmarks.trainings.finished import complete_comparisons


def test_incomplete_comparisons_are_left_out(root: Path) -> None:
    for name, missing in (("a", []), ("b", [{"seed": 1}])):
        folder = root / "stages" / "compare" / name
        folder.mkdir(parents=True)
        manifest = {"finished": "2026-11-21", "inputs": {"missing": missing}}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert sorted(folder.name for folder in complete_comparisons()) == ["a"]
