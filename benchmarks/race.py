"""A training against the clock: dev F1 over hours, as DAWNBench's entries tell it.

Use: python -m benchmarks.race OUT_FOLDER --data.dataset squad-v1.1-recovered --variants char …

Runs the flow `train` with these flags and writes a TSV file for each variant (epoch, hours of
training, dev F1) and a picture of it. Prints the seconds of training until dev F1 0.73 and 0.75,
examples per second, padding ratio and peak memory. Of a variant that had been trained before,
nothing is written.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from benchmarks.machine import machine, today
from infra.settings import CHECKOUT, settings
from tasks.manifests import facts_of
from tasks.progress import History, seconds_to

HEADER = ("epoch", "hours", "f1")


def train(flags: list[str]) -> list[Path]:
    """Run the flow; the stages of the variants that it trained."""
    stages = settings().root.resolve() / "stages" / "train"
    before = set(stages.glob("[!.]*"))
    command = [sys.executable, "-m", "flows.train", *flags]
    subprocess.run(command, cwd=CHECKOUT, env={**os.environ}, check=True)
    return sorted(set(stages.glob("[!.]*")) - before)


def rows(history: History) -> list[str]:
    """Lines of the TSV file: hours of training and dev F1 (0 to 1) after each epoch."""
    lines = [
        f"{entry['epoch']}\t{entry['seconds'] / 3600:.6f}\t{entry['dev/f1'] / 100:.6f}"
        for entry in history
    ]
    return ["\t".join(HEADER), *lines]


def _validation_f1(entry: dict[str, Any]) -> float:
    """An epoch's; its number where nothing is held out, so that the last one is chosen."""
    return float(entry["validation/f1" if "validation/f1" in entry else "epoch"])


def summary(history: History) -> dict[str, Any]:
    """What the training cost and reached."""
    last = history[-1]
    chosen = max(history, key=_validation_f1)
    before = [0.0, *(entry["seconds"] for entry in history[:-1])]
    examples = sum(
        entry["examples_per_second"] * (entry["seconds"] - began)
        for entry, began in zip(history, before, strict=True)
    )
    return {
        "epochs": len(history),
        # Chosen by validation, where there is one; the highest on dev is there for DAWNBench's way.
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


def draw(history: History, name: str, file: Path) -> None:
    """F1 on validation and dev over minutes of training."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    minutes = [entry["seconds"] / 60 for entry in history]
    for split in ("validation", "dev"):
        if f"{split}/f1" in history[-1]:
            axes.plot(minutes, [entry[f"{split}/f1"] for entry in history], "o-", label=split)
    axes.set(xlabel="minutes of training", ylabel="F1", title=name, xlim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=150)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    arguments, flags = parser.parse_known_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    told = {"command": f"python -m benchmarks.race {' '.join(sys.argv[1:])}", "date": today()}
    for folder in train(flags):
        facts = facts_of(folder)
        history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        name = f"{facts['variant']}-seed{config['training']['seed']}"
        (arguments.out / f"{name}.tsv").write_text("\n".join(rows(history)) + "\n", "utf-8")
        result = {**told, "machine": machine(), "config": config, **summary(history)}
        (arguments.out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        draw(history, name, arguments.out / f"{name}.png")
        print(name, json.dumps(summary(history), indent=1))


if __name__ == "__main__":
    main()
