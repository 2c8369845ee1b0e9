"""A training's history in DAWNBench's format."""

import json
from pathlib import Path
from typing import Any

from tasks.training.epoch_log import History, seconds_to, stopping_f1

HEADER = ("epoch", "hours", "f1Score")


def rows(history: History) -> list[str]:
    """Lines of the TSV file: hours of training and dev F1 (0 to 1) after each epoch."""
    lines = [
        f"{entry['epoch']}\t{entry['seconds'] / 3600:.6f}\t{entry['dev/f1'] / 100:.6f}"
        for entry in history
    ]
    return ["\t".join(HEADER), *lines]


def _validation_f1(entry: dict[str, Any]) -> float:
    """Validation F1 of an epoch. Without a validation split, the epoch's number, so that the last
    epoch is selected."""
    return stopping_f1(entry, entry["epoch"])


def summary(history: History) -> dict[str, Any]:
    """Cost and scores of a training."""
    last = history[-1]
    chosen = max(history, key=_validation_f1)
    before = [0.0, *(entry["seconds"] for entry in history[:-1])]
    examples = sum(
        entry["examples_per_second"] * (entry["seconds"] - began)
        for entry, began in zip(history, before, strict=True)
    )
    return {
        "epochs": len(history),
        # Selected by validation F1, if available; DAWNBench reports the highest dev F1.
        "chosen_epoch": chosen["epoch"],
        "dev_f1": round(chosen["dev/f1"] / 100, 4),
        "highest_dev_f1": round(max(entry["dev/f1"] for entry in history) / 100, 4),
        "seconds": round(last["seconds"], 1),
        "seconds_with_evaluations": round(last["elapsed_seconds"], 1),
        "seconds_to_f1_0.73": seconds_to(history, 73.0),
        "seconds_to_f1_0.75": seconds_to(history, 75.0),
        "examples_per_second": round(examples / last["seconds"], 1),
        "padding_ratio": round(last["padding_ratio"], 4),
        "peak_memory_bytes": last["peak_memory_bytes"],
    }


def write(folder: Path, name: str, result: dict[str, Any]) -> None:
    """Write a result as a JSON file, and its `history` as a TSV file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / f"{name}.tsv").write_text("\n".join(rows(result["history"])) + "\n", "utf-8")
