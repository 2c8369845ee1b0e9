"""What orchestration and tracking cost: a whole retraining whose own work is next to nothing.

Use: python -m benchmarks.overhead

Runs `retrain` with both variants in a new root (its databases are created: "first"), then with
another seed in the same root ("later"), then unchanged ("nothing to do"). Prefect and MLflow are
what is left of a run's wall time without the stages' own work, plus the stages' time in MLflow.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, today
from infra.settings import CHECKOUT

FLAGS = ["--training.epochs", "1", "--training.hidden-size", "8", "--resources.workers", "1"]
RESULT = Path(__file__).parent / "results" / "overhead.json"


def retrain(root: Path, *flags: str) -> float:
    """Wall seconds of one run in a process of its own."""
    environment = {**os.environ, "BIDAFLOW_ROOT": str(root)}
    command = [sys.executable, "-m", "flows.retrain", *FLAGS, *flags]
    began = time.perf_counter()
    subprocess.run(command, env=environment, cwd=CHECKOUT, check=True, capture_output=True)
    return time.perf_counter() - began


def manifests(root: Path) -> dict[Path, dict[str, Any]]:
    """The manifest of every stage there is."""
    files = (root / "stages").glob("*/[!.]*/manifest.json")
    return {file: json.loads(file.read_text(encoding="utf-8")) for file in files}


def measure(root: Path, *flags: str) -> dict[str, float]:
    """Seconds of one run, divided among those who took them."""
    before = manifests(root)
    wall = retrain(root, *flags)
    made = [manifest for file, manifest in manifests(root).items() if file not in before]
    trained = [m["facts"]["seconds"] for m in made if m["stage"] == "train"]
    mlflow = sum(seconds["mlflow"] for seconds in trained)
    ray_start = sum(seconds["ray_start"] for seconds in trained)
    seconds = {
        "wall": wall,
        "prefect_and_mlflow": wall - sum(m["seconds"] for m in made) - ray_start + mlflow,
        "ray_start": ray_start,
    }
    for number, told in enumerate(trained, 1):
        seconds[f"fit_{number}_overhead"] = told["fit_overhead"]
    return {name: round(value, 2) for name, value in seconds.items()}


def main() -> None:
    """Measure, print, and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            "first": measure(Path(folder)),
            "later": measure(Path(folder), "--training.seed", "1"),
            "nothing to do": measure(Path(folder), "--training.seed", "1"),
        }
    command = "python -m benchmarks.overhead"
    result = {"command": command, "date": today(), "machine": machine(), "seconds": runs}
    print(json.dumps(result, indent=1))
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
