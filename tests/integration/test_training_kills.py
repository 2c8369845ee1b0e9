"""Twenty SIGKILLs of workers, controllers and flows do not change the result of a training.

Set BIDAFLOW_TEST_SEED to repeat a run.
"""

import json
import os
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.settings import CHECKOUT
from tests.factories.cli import (
    BIDAFLOW,
    ONE_WORKER,
    SMALL_VECTORS,
    checkpoints,
    environment_for,
    kill,
    write_dataset,
)
from tests.factories.ray_processes import titled

pytestmark = [pytest.mark.heavy, pytest.mark.full, pytest.mark.timeout(3600)]

KILLS = 20
TARGETS = {"RayTrainWorker": 12, "TrainController": 4, "flow": 4}
"""Selection weights of the kill targets: titles of Ray's processes, and the flow itself."""

FLAGS = (
    *("--variants", "char", "--training.hidden-size", "8", "--training.batch-size", "10"),
    *("--training.epochs", "14", "--vectors.source", SMALL_VECTORS),
    *ONE_WORKER,
)


def start(root: Path, data: Path) -> subprocess.Popen[bytes]:
    """The flow in its own process; its output is appended to a log file beside its root."""
    with root.with_suffix(".log").open("a") as log:
        return subprocess.Popen(
            [BIDAFLOW, "train", "--data.dataset", str(data), *FLAGS],
            env=environment_for(root, BIDAFLOW_CHECKPOINT_MINUTES="0.001"),
            cwd=CHECKOUT,
            stdout=log,
            stderr=log,
        )


@dataclass
class RepeatedKills:
    """Kills a flow or its Ray processes again and again, and restarts the flow when it ends."""

    root: Path
    data: Path
    draws: random.Random
    killed: list[str] = field(default_factory=list)
    flows: int = 0

    def run(self) -> None:
        """Kill `KILLS` processes, then let the flow finish."""
        process = self._start()
        while len(self.killed) < KILLS:
            target = self._target()
            self._wait(process)
            if process.poll() is not None:
                assert process.returncode, f"the flow ended after {len(self.killed)} kills"
                process = self._start()
            elif target == "flow":
                self._kill_flow(process)
                process = self._start()
            else:
                self._kill(process, target)
        while process.wait() and self.flows < 2 * KILLS:
            process = self._start()
        assert process.returncode == 0

    def _target(self) -> str:
        """A random target, but each of them once before any is repeated."""
        rest = {target: n for target, n in TARGETS.items() if target not in self.killed} or TARGETS
        (target,) = self.draws.choices(list(rest), list(rest.values()))
        return target

    def _start(self) -> subprocess.Popen[bytes]:
        self.flows += 1
        return start(self.root, self.data)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for one or two new checkpoints, except one time in four; then up to 0.5 s more."""
        if self.draws.random() > 0.25:
            before, wanted = checkpoints(self.root), self.draws.randint(1, 2)
            deadline = time.monotonic() + 60
            while len(checkpoints(self.root) - before) < wanted and time.monotonic() < deadline:
                if process.poll() is not None:
                    return
                time.sleep(0.02)
        time.sleep(self.draws.uniform(0, 0.5))

    def _kill(self, process: subprocess.Popen[bytes], target: str) -> None:
        for child in titled(descendants(process.pid), target)[:1]:
            kill([child])
            self.killed.append(target)

    def _kill_flow(self, process: subprocess.Popen[bytes]) -> None:
        """Kill only the flow's process: Ray's training processes must then end by themselves."""
        children = descendants(process.pid)
        process.kill()
        process.wait()
        self.killed.append("flow")
        _, alive = psutil.wait_procs(children, timeout=10)
        deadline = time.monotonic() + 120
        while titled(alive, "Train"):
            assert time.monotonic() < deadline, "workers still run without their flow"
            time.sleep(0.2)
        kill(alive)


def descendants(pid: int) -> list[psutil.Process]:
    """All direct and indirect children of a process."""
    return psutil.Process(pid).children(recursive=True)


def result(root: Path) -> tuple[bytes, bytes, list[dict[str, Any]]]:
    """Weights, predictions, and the history without its time and memory measurements."""
    (folder,) = (root / "stages" / "train").glob("[!.]*")
    measured = ("seconds", "examples_per_second", "memory")
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    entries = [
        {name: value for name, value in entry.items() if not any(m in name for m in measured)}
        for entry in history
    ]
    weights = (folder / "model" / "weights.safetensors").read_bytes()
    return weights, (folder / "predictions.parquet").read_bytes(), entries


def test_kills_do_not_change_the_result(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "own", train=6, dev=1)
    seed = int(os.environ.get("BIDAFLOW_TEST_SEED", random.randrange(10**6)))
    print(f"BIDAFLOW_TEST_SEED={seed}")

    kills = RepeatedKills(tmp_path / "killed", data, random.Random(seed))
    kills.run()
    print(f"{kills.flows} flows; killed: {kills.killed}")
    undisturbed = start(tmp_path / "undisturbed", data)
    assert undisturbed.wait() == 0, (tmp_path / "undisturbed.log").read_text()
    assert result(kills.root) == result(tmp_path / "undisturbed")
