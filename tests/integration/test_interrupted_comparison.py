"""`bidaflow compare`, killed between two trainings, and with a training that fails."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from infra.settings import CHECKOUT
from tests.factories.cli import (
    BIDAFLOW,
    ONE_WORKER,
    SMALL,
    bidaflow,
    environment_for,
    kill,
    write_dataset,
)

pytestmark = [pytest.mark.heavy, pytest.mark.full, pytest.mark.timeout(2400)]

ONE_AT_A_TIME = ("--resources.trainings", "1")
SEEDS = ("--seeds", "0,1,2")


def pages(root: Path) -> list[Path]:
    return sorted((root / "reports").glob("comparisons/*/comparison.html"))


def trained(root: Path) -> dict[str, int]:
    """The finished trainings, and when each was finished."""
    folders = (root / "stages" / "train").glob("[!.]*/manifest.json")
    return {file.parent.name: file.stat().st_mtime_ns for file in folders}


def test_killed_comparison_trains_what_is_missing(tmp_path: Path) -> None:
    root, data = tmp_path / "root", write_dataset(tmp_path / "own")
    flags = (
        "--data",
        str(data),
        "--variants",
        "baseline",
        *SEEDS,
        *SMALL,
        *ONE_WORKER,
        *ONE_AT_A_TIME,
    )
    log = tmp_path / "log.txt"
    with log.open("w") as out:
        process = subprocess.Popen(
            [BIDAFLOW, "compare", *flags],
            env=environment_for(root),
            cwd=CHECKOUT,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while "1 of 3 trainings have ended, about" not in log.read_text(encoding="utf-8"):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.2)
        children = psutil.Process(process.pid).children(recursive=True)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    kill(children)
    before = trained(root)
    assert 1 <= len(before) < 3

    again = bidaflow(root, "compare", *flags)
    assert again.returncode == 0, again.stderr
    after = trained(root)
    assert before.items() <= after.items(), "finished trainings are not repeated"
    assert len(after) == 3
    page = pages(root)[-1].read_text(encoding="utf-8")
    assert "without results" not in page and "1 of 3 seeds" not in page


def test_failed_training_does_not_lose_the_others(tmp_path: Path) -> None:
    """Only the larger dataset has a validation split, which early stopping needs."""
    root = tmp_path / "root"
    large = write_dataset(tmp_path / "large", train=12)
    small = write_dataset(tmp_path / "small", train=1)
    data = ("--data", f"{small},{large}", "--training.patience", "1")
    flags = (*data, "--variants", "baseline", "--seeds", "0", *SMALL, *ONE_WORKER)
    done = bidaflow(root, "compare", *flags)
    assert done.returncode == 1
    assert "1 of 2 trainings failed:" in done.stderr
    assert "patience needs a validation split" in done.stderr
    assert "Traceback" not in done.stderr
    (page,) = pages(root)
    text = page.read_text(encoding="utf-8")
    assert "Failed: 1" in text and "patience needs a validation split" in text
    assert str(page) in done.stderr
    assert len(trained(root)) == 1
