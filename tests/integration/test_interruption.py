"""A flow killed during training resumes from its last checkpoint when it is run again."""

import os
import random
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from mlflow.tracking import MlflowClient

from infra.settings import CHECKOUT
from tests.factories.cli import (
    BIDAFLOW,
    ONE_WORKER,
    SMALL_VECTORS,
    bidaflow,
    checkpoints,
    environment_for,
    tests_server,
    write_dataset,
)

pytestmark = [pytest.mark.full, pytest.mark.heavy, pytest.mark.timeout(3600)]

FLAGS = (
    *("--variants", "char"),
    *("--training.epochs", "12"),
    *("--training.hidden-size", "8"),
    *("--training.batch-size", "10"),
    *("--training.dropout", "0"),
    *("--vectors.source", SMALL_VECTORS),
    *ONE_WORKER,
)


def start_and_kill(root: Path, data: Path, wanted: int, delay: float) -> None:
    """Run the flow until it has this many checkpoints, then kill all its processes."""
    process = subprocess.Popen(
        [BIDAFLOW, "retrain", "--data.dataset", str(data), *FLAGS],
        env=environment_for(root, BIDAFLOW_CHECKPOINT_MINUTES="0.001", **tests_server()),
        cwd=CHECKOUT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 900
    while (
        not list((root / "stages" / "train").glob(".building-*")) or len(checkpoints(root)) < wanted
    ):
        assert process.poll() is None, "the flow ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(delay)
    for child in (*psutil.Process(process.pid).children(recursive=True), process):
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    process.wait()


KILLED_AT_THE_END = """\
import os, signal
import psutil

rename = os.rename

def rename_or_die(old, new, **options):
    if "/stages/train/" in os.fspath(new):
        for child in psutil.Process().children(recursive=True):
            child.kill()
        os.kill(os.getpid(), signal.SIGKILL)
    rename(old, new, **options)

os.rename = rename_or_die
"""
"""A sitecustomize module that kills all processes just before a finished training is renamed."""


def train(root: Path, data: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the flow to its end."""
    return bidaflow(
        root, "retrain", "--data.dataset", str(data), *FLAGS, **tests_server(), **variables
    )


def train_and_die(root: Path, data: Path, folder: Path) -> str:
    """Run the flow, killed just before its training gets its final name; return its output."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(KILLED_AT_THE_END)
    done = train(root, data, PYTHONPATH=os.pathsep.join([str(folder), str(CHECKOUT)]))
    assert done.returncode == -signal.SIGKILL
    return done.stdout + done.stderr


def weights(root: Path) -> dict[str, bytes]:
    files = (root / "stages" / "train").glob("*/model/*.safetensors")
    return {file.name: file.read_bytes() for file in files}


def kill_in_mid_training(root: Path, data: Path) -> None:
    """Kill the flow after its second checkpoint, up to half a second later."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed of the delay: {seed}")
    start_and_kill(root, data, wanted=2, delay=random.Random(seed).uniform(0, 0.5))
    assert not list((root / "stages" / "train").glob("[!.]*")), "nothing may look finished"


def assert_one_finished_training(root: Path) -> None:
    """MLflow has one finished training and one version of the model, and Ray's files are gone."""
    assert list((root / "ray").iterdir()) == []
    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    experiment = client.get_experiment_by_name("bidaflow/own")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.`bidaflow.role` = 'variant'")
    finished = [run for run in runs if run.info.status == "FINISHED"]
    assert len(finished) == 1
    assert len(client.search_model_versions("name = 'bidaf-own'")) == 1


def test_training_killed_twice_keeps_the_same_weights(prefect_server: None, tmp_path: Path) -> None:
    root, whole, data = tmp_path / "root", tmp_path / "whole", write_dataset(tmp_path / "own")
    kill_in_mid_training(root, data)
    output = train_and_die(root, data, tmp_path / "before")
    assert "continuing from epoch" in output, "though checkpoints are now rarer"
    assert "epoch 12:" in output
    done = train(root, data)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"epoch \d+:", done.stdout + done.stderr), "all epochs were done"
    assert_one_finished_training(root)
    assert train(whole, data).returncode == 0
    assert weights(root) and weights(root) == weights(whole)
