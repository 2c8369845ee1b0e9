"""A flow that is killed in mid-training, and run again, goes on from its last epoch."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from mlflow.tracking import MlflowClient

from infra.settings import CHECKOUT
from tests.integration.running import ONE_WORKER, environment_for, retrain

pytestmark = pytest.mark.heavy

FLAGS = (
    *("--variants", "char"),
    *("--training.epochs", "4"),
    *("--training.hidden-size", "8"),
    *ONE_WORKER,
)


def start_and_kill(root: Path) -> None:
    """Run the flow until its second checkpoint is there, then kill all its processes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.retrain", *FLAGS],
        env=environment_for(root),
        cwd=CHECKOUT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 240
    while len(list((root / "ray").glob("*/checkpoint_*/state.json"))) < 2:
        assert process.poll() is None, "the flow ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for child in (*psutil.Process(process.pid).children(recursive=True), process):
        os.kill(child.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_training_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "root"
    start_and_kill(root)
    assert not list((root / "stages" / "train").glob("[!.]*")), "nothing may look finished"

    done = retrain(root, *FLAGS)
    assert done.returncode == 0, done.stderr
    assert "epoch 1:" not in done.stdout + done.stderr
    assert "epoch 4:" in done.stdout + done.stderr
    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    experiment = client.get_experiment_by_name("bidaflow/tiny")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.`bidaflow.role` = 'variant'")
    finished = [run for run in runs if run.info.status == "FINISHED"]
    assert len(finished) == 1
