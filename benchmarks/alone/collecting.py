"""Turns the predictions of trainings on another machine into files of answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.alone.packed import Packed
from benchmarks.alone.training import predictions_file
from benchmarks.trainings.answers import threshold_columns, write_columns
from benchmarks.trainings.trained import Training
from tasks.training.checkpoints import load_predictions
from tasks.training.outputs import SCORES

PREFIXES = {"dev": "", "validation": "validation-"}  # of the files, as `published_table` names them


def collect_answers(folder: Path, out: Path, results: Path) -> Iterator[Path]:
    """Write the answers of each finished training in `out` on the data in `folder`, and yield the
    files."""
    packed = Packed.load(folder)
    results.mkdir(parents=True, exist_ok=True)
    for file in sorted(out.glob("*.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        if result["ended"] is None:
            print(f"{file.stem} has not ended yet.")
            continue
        training = Training(result["config"], packed.about["data"], packed.about["inputs"])
        limit = training.variant.training.max_context_tokens
        for name, own in packed.evaluated.items():
            predictions = load_predictions(out / file.stem / predictions_file(name))
            columns = threshold_columns(own.split, predictions, limit)
            answers = results / f"{PREFIXES[name]}{training.file_name}"
            write_columns(answers, columns, {**_facts(result, training, packed), "split": name})
            yield answers


def _facts(result: dict[str, Any], training: Training, packed: Packed) -> dict[str, Any]:
    """The facts of `answers.facts_about`, of the epoch that counts."""
    kept = result["history"][result["kept_epoch"] - 1]
    return {
        "date": result["date"],
        "git": packed.about["git"],
        "machine": result["machine"],
        **training.facts,
        "kept": {
            "epoch": kept["epoch"],
            "scores": {name: kept[name] for name in SCORES if name in kept},
        },
        "history": result["history"],
    }
