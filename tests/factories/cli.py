"""The command line as its users run it: in a fresh process, with its own storage root."""

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from prefect.settings import PREFECT_API_URL

from infra.settings import CHECKOUT
from tasks.datasets.tiny import generate

BIDAFLOW = str(Path(sys.executable).with_name("bidaflow"))
"""The console script of the environment that runs the tests."""

SMALL = ("--training.epochs", "1", "--training.hidden-size", "8")
ONE_WORKER = ("--resources.workers", "1", "--resources.cpus-per-worker", "1")
SMALL_VECTORS = str(CHECKOUT / "tests" / "factories" / "small_vectors.txt")
"""Vectors of a few words: with the 400,000 of the packaged set, each run takes seconds more."""
QUICK = (*SMALL, *ONE_WORKER, "--vectors.source", SMALL_VECTORS)
"""Flags for runs that test the pipeline, not the model."""


def environment_for(root: Path, **variables: str) -> dict[str, str]:
    """This process's environment with another storage root, which also holds Prefect's state."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return {**kept, "BIDAFLOW_ROOT": str(root), "PYTHONPATH": str(CHECKOUT), **variables}


def write_dataset(folder: Path, train: int = 4, dev: int = 2, contexts: int = 4) -> Path:
    """Write train.json and dev.json with a few generated articles; returns the folder."""
    folder.mkdir(parents=True)
    for name, split in zip(("train", "dev"), generate(3, train, dev, contexts), strict=True):
        (folder / f"{name}.json").write_text(json.dumps(split), encoding="utf-8")
    return folder


def write_learnable_dataset(folder: Path) -> Path:
    """Write train.json and dev.json that the smallest model learns in one epoch, so that it is
    promoted: all answers follow the same words. Returns the folder."""
    folder.mkdir(parents=True)
    for split, articles in (("train", 20), ("dev", 12)):
        data = [_learnable_article(f"{split} {number}") for number in range(articles)]
        (folder / f"{split}.json").write_text(json.dumps({"data": data}), encoding="utf-8")
    return folder


def _learnable_article(title: str) -> dict[str, Any]:
    paragraphs = []
    for number in range(4):
        code = str(1000 + zlib.crc32(f"{title} {number}".encode()) % 9000)
        context = f"Ticket {title} {number} was closed. The code was {code}."
        question = {
            "id": f"{title} {number}",
            "question": "What was the code?",
            "answers": [{"text": code, "answer_start": context.index(code)}],
        }
        paragraphs.append({"context": context, "qas": [question]})
    return {"title": title, "paragraphs": paragraphs}


def tests_server() -> dict[str, str]:
    """The variable that makes a command use the fixture `prefect_server` instead of starting its
    own server, which takes ten seconds."""
    return {"PREFECT_API_URL": PREFECT_API_URL.value() or ""}


def bidaflow(root: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `bidaflow` with these words; output and errors are text."""
    return subprocess.run(
        [BIDAFLOW, *words],
        env=environment_for(root, **variables),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )


def run_benchmark(root: Path, program: str, *arguments: str | Path) -> None:
    """Run a program of the benchmarks, which must succeed."""
    process = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{program}", *map(str, arguments)],
        env=environment_for(root),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert process.returncode == 0, process.stderr


def checkpoints(root: Path) -> set[str]:
    """Names of the complete checkpoints of a root's trainings."""
    return {file.parent.name for file in (root / "ray").glob("*/checkpoint_*/state.json")}


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill all processes; some exit by themselves as soon as their parent is gone."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
