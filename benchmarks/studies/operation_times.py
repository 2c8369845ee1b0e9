"""Seconds from a click in Prefect to its effect, and the processes and memory of `bidaflow up`.

Usage: python -m benchmarks.studies.operation_times NAME=BIDAFLOW [NAME=BIDAFLOW ...] [--out FILE]

BIDAFLOW is the console script of a checkout, so that several versions are measured in one call, for
example `before=../before/.venv/bin/bidaflow after=.venv/bin/bidaflow`. For each of them, with a new
root:

- the seconds until `bidaflow up` is ready, and the proportional set sizes of its processes (Linux)
  a minute later
- a first run of `retrain` on `tiny`, whose data steps are then in the cache
- `CLICKS` runs with other seeds, each created as the button Run creates it, and cancelled five
  seconds after its first progress line. Their medians: seconds from the click to Running, to the
  first progress line, and from Cancel to Cancelled; and the longest time without a log line between
  Running and the first progress line.
"""

import argparse
import itertools
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.common.machine import machine, print_result, today
from benchmarks.common.services import services_up

CLICKS = 3
IDLE_SECONDS, TRAINING_SECONDS = 60, 5
TIMEOUT_SECONDS = 600
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
RESULT = Path(__file__).parents[1] / "results" / "operation-times.json"


@dataclass(frozen=True)
class Servers:
    """Running services of one version."""

    api: httpx.Client
    seconds_to_start: float

    def post(self, path: str, body: Any) -> Any:
        return self.api.post(path, json=body).raise_for_status().json()

    def run(self, run_id: str) -> dict[str, Any]:
        run: dict[str, Any] = self.api.get(f"flow_runs/{run_id}").raise_for_status().json()
        return run

    def log(self, run_id: str) -> list[tuple[float, str]]:
        """The log lines of a run with their times in seconds since the epoch, oldest first."""
        filters = {"logs": {"flow_run_id": {"any_": [run_id]}}, "sort": "TIMESTAMP_ASC"}
        lines = self.post("logs/filter", {**filters, "limit": 200})
        return [(seconds(line["timestamp"]), line["message"]) for line in lines]


def seconds(timestamp: str) -> float:
    """Seconds since the epoch of a timestamp of Prefect's API."""
    return datetime.fromisoformat(timestamp).timestamp()


def free_port() -> str:
    """A free port of this machine."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return str(opened.getsockname()[1])


@contextmanager
def running(bidaflow: str, root: Path) -> Iterator[Servers]:
    """The services of a version, while the context is open."""
    ports = {f"BIDAFLOW_{name}_PORT": free_port() for name in ("PREFECT", "MLFLOW", "REPORTS")}
    environment = {**os.environ, "BIDAFLOW_ROOT": str(root), **ports}
    checkout = Path(bidaflow).resolve().parents[2]
    began = time.perf_counter()
    with services_up([bidaflow], checkout, environment):
        seconds_to_start = time.perf_counter() - began
        url = f"http://127.0.0.1:{ports['BIDAFLOW_PREFECT_PORT']}/api/"
        with httpx.Client(base_url=url, timeout=60) as api:
            yield Servers(api, seconds_to_start)


def memory(root: Path) -> dict[str, float]:
    """The number of processes with this storage root, and the sum of their memory in MB."""
    sizes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("BIDAFLOW_ROOT") == str(root):
                sizes.append(process.memory_full_info().pss)
    return {"processes": len(sizes), "memory_mb": round(sum(sizes) / 1e6)}


def wait(condition: Callable[[], Any]) -> Any:
    """The first true value of the condition."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError("The run does not get on.")
        time.sleep(0.2)
    return result


def start(servers: Servers, seed: int, epochs: int) -> str:
    """Create a run of `retrain` as Prefect's page does; returns its id."""
    deployments = servers.post("deployments/filter", {})
    (deployment,) = (d["id"] for d in deployments if d["name"] == "retrain")
    parameters = {
        "data": {"dataset": "tiny"},
        "variants": ["char"],
        "training": {"seed": seed, "epochs": epochs},
    }
    run = servers.post(f"deployments/{deployment}/create_flow_run", {"parameters": parameters})
    return str(run["id"])


def first_progress(servers: Servers, run_id: str) -> list[tuple[float, str]]:
    """The log up to the first progress line of a training; empty if there is none yet."""
    log = servers.log(run_id)
    positions = [i for i, (_, message) in enumerate(log) if "examples/s" in message]
    return log[: positions[0] + 1] if positions else []


def click(servers: Servers, seed: int) -> dict[str, float]:
    """Start a run, wait for its first progress line, cancel it; the seconds of each step."""
    clicked = time.time()
    run_id = start(servers, seed, epochs=1000)
    log = wait(lambda: first_progress(servers, run_id))
    began = seconds(servers.run(run_id)["start_time"])
    times = [began, *(at for at, _ in log if at > began)]
    time.sleep(TRAINING_SECONDS)
    cancelled = time.time()
    servers.post(f"flow_runs/{run_id}/set_state", {"state": {"type": "CANCELLING"}})
    run = wait(lambda: (r := servers.run(run_id))["state_type"] in FINAL and r)
    if run["state_type"] != "CANCELLED":
        print(f"The cancelled run ended as {run['state_name']}.")
    return {
        "click to Running": began - clicked,
        "click to first progress line": log[-1][0] - clicked,
        "longest silence before it": max(b - a for a, b in itertools.pairwise(times)),
        "Cancel to Cancelled": seconds(run["state"]["timestamp"]) - cancelled,
    }


def measure(bidaflow: str) -> dict[str, Any]:
    """All measurements of one version."""
    with tempfile.TemporaryDirectory() as folder, running(bidaflow, Path(folder)) as servers:
        time.sleep(IDLE_SECONDS)
        result = {"seconds until up is ready": servers.seconds_to_start, **memory(Path(folder))}
        first = start(servers, seed=0, epochs=1)
        wait(lambda: servers.run(first)["state_type"] in FINAL)
        clicks = [click(servers, seed) for seed in range(1, CLICKS + 1)]
        for name in clicks[0]:
            result[f"seconds, {name}"] = statistics.median(row[name] for row in clicks)
        return {name: round(value, 1) for name, value in result.items()}


def main() -> None:
    """Measure all versions, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="+", metavar="NAME=BIDAFLOW")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    versions = dict(version.split("=", 1) for version in arguments.versions)
    rows = {name: measure(bidaflow) for name, bidaflow in versions.items()}
    print_result(
        {"date": today(), "machine": machine(), "clicks": CLICKS, "versions": rows}, arguments.out
    )


if __name__ == "__main__":
    main()
