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

import matplotlib.pyplot as plt

from benchmarks.clock import rows, summary
from benchmarks.machine import machine, today
from infra.settings import CHECKOUT, settings
from tasks.manifests import facts_of
from tasks.progress import History


def train(flags: list[str]) -> list[Path]:
    """Run the flow; the stages of the variants that it trained."""
    stages = settings().root.resolve() / "stages" / "train"
    before = set(stages.glob("[!.]*"))
    command = [sys.executable, "-m", "flows.train", *flags]
    subprocess.run(command, cwd=CHECKOUT, env={**os.environ}, check=True)
    return sorted(set(stages.glob("[!.]*")) - before)


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
        data = {name: facts[name] for name in ("trained_on", "questions")}
        result = {**told, "machine": machine(), "data": data, "config": config, **summary(history)}
        (arguments.out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        draw(history, name, arguments.out / f"{name}.png")
        print(name, json.dumps(summary(history), indent=1))


if __name__ == "__main__":
    main()
