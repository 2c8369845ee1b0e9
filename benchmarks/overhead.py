"""Cost of orchestration and tracking: a complete retraining with next to no work of its own.

Usage: python -m benchmarks.overhead

Runs `retrain` with one variant in a new root ("first", which also creates the databases), then with
another seed in the same root ("later"), then unchanged ("nothing to do"). The cost of Prefect and
MLflow is a run's wall time without the stages' own work, plus the stages' time in MLflow.

Then, with `bidaflow up` running, measures the seconds from the start of a flow to the start of its
first task, and the time that logging takes in a training: ten epochs of a thousand steps each,
logged to a SQLite file and through the server, as a share of the time to train those steps (0.5 s
each, as measured on SQuAD on one core).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from benchmarks.common.machine import machine, today
from infra.settings import CHECKOUT, settings
from tasks.tracking import metric_logger
from tasks.tracking.client import client_of

SMALL = ["--training.epochs", "1", "--training.hidden-size", "8"]
FLAGS = ["--variants", "char", *SMALL, "--resources.workers", "1"]
EPOCHS, STEPS, STEP_SECONDS = 10, 1_000, 0.5
RESULT = Path(__file__).parent / "results" / "overhead.json"


def retrain(root: Path, *flags: str) -> float:
    """Wall seconds of one run in its own process."""
    environment = {**os.environ, "BIDAFLOW_ROOT": str(root)}
    command = [sys.executable, "-m", "flows", "retrain", *FLAGS, *flags]
    began = time.perf_counter()
    subprocess.run(command, env=environment, cwd=CHECKOUT, check=True, capture_output=True)
    return time.perf_counter() - began


def manifests(root: Path) -> dict[Path, dict[str, Any]]:
    """The manifest of every existing stage, by its file."""
    files = (root / "stages").glob("*/[!.]*/manifest.json")
    return {file: json.loads(file.read_text(encoding="utf-8")) for file in files}


def measure(root: Path, *flags: str) -> dict[str, float]:
    """Seconds of one run, broken down by cause."""
    before = manifests(root)
    wall = retrain(root, *flags)
    new = [manifest for file, manifest in manifests(root).items() if file not in before]
    trained = [manifest["facts"]["seconds"] for manifest in new if manifest["stage"] == "train"]
    mlflow, ray_start, fit_overhead = (
        sum(seconds[name] for seconds in trained)
        for name in ("mlflow", "ray_start", "fit_overhead")
    )
    seconds = {
        "wall": wall,
        "prefect_and_mlflow": wall - sum(m["seconds"] for m in new) - ray_start + mlflow,
        "ray_start": ray_start,
        "ray_fit": fit_overhead,
    }
    return {name: round(value, 2) for name, value in seconds.items()}


def logging_cost(uri: str) -> dict[str, float]:
    """Seconds that logging an epoch's metrics takes, and their share of the epoch, in per cent."""
    run_id = client_of(uri).create_run("0").info.run_id
    logger = metric_logger.EpochLogger(uri, run_id)
    began = time.perf_counter()
    for epoch in range(EPOCHS):
        for step in range(epoch * STEPS, (epoch + 1) * STEPS):
            logger.step(step, 1.0)
        logger.epoch((epoch + 1) * STEPS, {f"dev/{name}": 1.0 for name in "abcdefghij"})
    seconds = (time.perf_counter() - began) / EPOCHS
    return {"seconds": round(seconds, 3), "per cent": 100 * seconds / (STEPS * STEP_SECONDS)}


def seconds_to_first_task(root: Path, prefect_url: str) -> float:
    """Seconds from the start of a flow run to the start of its first task."""
    retrain(root, "--training.seed", "2")  # a new seed, so that there is something to do
    completed = {"state": {"type": {"any_": ["COMPLETED"]}}}
    newest = {"flow_runs": completed, "sort": "START_TIME_DESC", "limit": 1}
    (run,) = httpx.post(f"{prefect_url}/api/flow_runs/filter", json=newest).json()
    of_run = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    tasks = httpx.post(f"{prefect_url}/api/task_runs/filter", json=of_run).json()
    first = min(datetime.fromisoformat(task["start_time"]) for task in tasks)
    return (first - datetime.fromisoformat(run["start_time"])).total_seconds()


@contextmanager
def services_up(root: Path) -> Iterator[None]:
    """Run `bidaflow up` during the block."""
    bidaflow, environment = (
        [sys.executable, "-m", "flows"],
        {**os.environ, "BIDAFLOW_ROOT": str(root)},
    )
    up = subprocess.Popen(
        [*bidaflow, "up"], env=environment, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert up.stdout is not None
        next(line for line in up.stdout if line.startswith("Stop"))
        yield
    finally:
        subprocess.run([*bidaflow, "down"], env=environment, cwd=CHECKOUT, check=True)
        up.wait()


def measure_with_servers(root: Path) -> dict[str, Any]:
    """Measurements while the servers are up."""
    with services_up(root):
        return {
            "flow start to first task": seconds_to_first_task(root, settings().prefect_url),
            "logging an epoch, SQLite": logging_cost(f"sqlite:///{root}/mlflow.db"),
            "logging an epoch, server": logging_cost(settings().mlflow_url),
        }


def main() -> None:
    """Measure, print, and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, dict[str, Any]] = {
            "first": measure(Path(folder)),
            "later": measure(Path(folder), "--training.seed", "1"),
            "nothing to do": measure(Path(folder), "--training.seed", "1"),
        }
        runs["served"] = measure_with_servers(Path(folder))
    command = "python -m benchmarks.overhead"
    result = {"command": command, "date": today(), "machine": machine(), "seconds": runs}
    print(json.dumps(result, indent=1))
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
