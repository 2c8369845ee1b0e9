"""Which comparisons under the root are collected."""

import json
from pathlib import Path

from benchmarks.trainings.finished import complete_comparisons


def test_incomplete_comparisons_are_left_out(root: Path) -> None:
    for name, missing in (("a", []), ("b", [{"seed": 1}]), ("c", None)):
        folder = root / "stages" / "compare" / name
        folder.mkdir(parents=True)
        inputs = {} if missing is None else {"missing": missing}  # earlier releases had no list
        manifest = {"finished": f"2026-11-2{len(name)}", "inputs": inputs}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert sorted(folder.name for folder in complete_comparisons()) == ["a", "c"]
