"""Which trainings benchmarks.comparison puts into one table."""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.comparison import Compared, complete_comparisons, newest_comparable
from models.configs.presets import preset
from tests.factories.finished_trainings import write_manifest, write_stages


def test_table_keeps_newest_comparable_run_per_variant(tmp_path: Path) -> None:
    data = write_stages(tmp_path)
    other = replace(data, dev=replace(data.dev, ingested=data.dev.ingested.with_name("other")))
    trained = [
        Compared(write_manifest(split, str(number), preset(name).with_changes(epochs=epochs)))
        for number, (name, split, epochs) in enumerate(
            [
                ("baseline", other, 2),
                ("char", data, 1),
                ("baseline", data, 2),
                ("baseline", data, 2),
                ("char", data, 2),
            ]
        )
    ]
    assert newest_comparable(trained) == trained[3:]


def test_incomplete_comparisons_are_left_out(root: Path) -> None:
    for name, day, missing in (("a", 3, []), ("b", 2, [{"seed": 1}]), ("c", 1, [])):
        folder = root / "stages" / "compare" / name
        folder.mkdir(parents=True)
        manifest = {"finished": f"2026-11-2{day}", "inputs": {"missing": missing}}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert [folder.name for folder in complete_comparisons()] == ["c", "a"], "the newest last"
