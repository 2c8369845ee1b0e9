"""Trains against the clock: dev F1 over hours, in DAWNBench's format.

Usage: python -m benchmarks.race OUT_FOLDER --data.dataset squad-v1.1-recovered --variants char …

Runs `bidaflow train` with these flags. For each variant, it writes a TSV file (epoch, hours of
training, dev F1), a picture of it, and a JSON file with each epoch's scores and times, evaluations
included, and the scores of the epoch whose weights are kept. Prints the seconds of training until
dev F1 0.73 and 0.75, examples per second, padding ratio and peak memory. For a variant that was
trained before, it reports the earlier training.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from benchmarks.common.clock import summary, write
from benchmarks.common.figures import save
from benchmarks.common.machine import machine
from infra.artifacts.in_use import stages_of_newest_runs
from infra.artifacts.manifest import read_manifest, stages_folder
from infra.settings import CHECKOUT
from tasks.training.epoch_log import History


def train(flags: list[str]) -> list[Path]:
    """Run the flow, and return the stages of the variants that it trained or reused.

    If the flow fails, which it explains, the program ends with its exit status.
    """
    command = [sys.executable, "-m", "flows", "train", *flags]
    status = subprocess.run(command, cwd=CHECKOUT, check=False).returncode
    if status:
        sys.exit(status)
    used = [stages_folder() / stage for stage in sorted(stages_of_newest_runs("train"))]
    return [folder for folder in used if folder.parent.name == "train"]


def result_of(folder: Path, command: str) -> dict[str, Any]:
    """The result of a training, from its stage."""
    manifest = read_manifest(folder)
    facts = manifest["facts"]
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    return {
        "command": command,
        "date": manifest["finished"][:10],
        "machine": machine(),
        "data": {name: facts[name] for name in ("trained_on", "questions")},
        "config": json.loads((folder / "config.json").read_text(encoding="utf-8")),
        "ended": facts["ended"],
        "kept": {"epoch": facts["epoch"], **facts["scores"]},
        **summary(history),
        "history": history,
    }


def draw(history: History, name: str, file: Path) -> None:
    """Draw F1 on validation and dev over minutes of training."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    minutes = [entry["seconds"] / 60 for entry in history]
    for split in ("validation", "dev"):
        if f"{split}/f1" in history[-1]:
            axes.plot(minutes, [entry[f"{split}/f1"] for entry in history], "o-", label=split)
    axes.set(xlabel="minutes of training", ylabel="F1", title=name, xlim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, file)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER", help="folder for the results")
    arguments, flags = parser.parse_known_args()
    command = f"python -m benchmarks.race {' '.join(sys.argv[1:])}"
    for folder in train(flags):
        result = result_of(folder, command)
        name = f"{result['config']['name']}-seed{result['config']['training']['seed']}"
        write(arguments.out, name, result)
        draw(result["history"], name, arguments.out / f"{name}.png")
        print(name, json.dumps(summary(result["history"]), indent=1))


if __name__ == "__main__":
    main()
