"""The benchmark that trains with only torch, numpy and pyarrow installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.alone import gather
from infra.settings import CHECKOUT
from tasks.evaluation.evaluate import load_split
from tests.factories.training_data import prepare

pytestmark = pytest.mark.heavy

HIDE_PACKAGES = """\
import sys

class HiddenPackages:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ImportError(name)

sys.meta_path.insert(0, HiddenPackages())
"""
"""A sitecustomize module that makes these packages fail to import, as if not installed."""

HIDDEN = {"ray", "prefect", "mlflow", "pydantic", "gensim", "httpx", "rich", "scipy", "matplotlib"}


def train(*arguments: str | Path, packages: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process, with `packages` first on its import path."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.alone", "train", *arguments],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(packages), str(CHECKOUT)])},
        stderr=subprocess.PIPE,
        text=True,
        timeout=800,
        check=False,
    )


def test_trains_seeds_without_ray_prefect_or_mlflow(tmp_path: Path) -> None:
    data = prepare(tmp_path, articles=1)
    questions = len(load_split(data.dev.ingested))
    folder, out = tmp_path / "packed", tmp_path / "out"
    parts = (data.train.encoded, data.dev.encoded, data.vocabulary, data.vectors)
    gather(folder, "made", *parts, data.dev.ingested)
    flags = ["--variant", "baseline", "--epochs", "1", "--seeds", "3", "4", "--batch-size", "5"]
    # Python imports it when this process starts, and when the processes for the seeds start.
    (tmp_path / "sitecustomize.py").write_text(HIDE_PACKAGES.format(names=HIDDEN))
    run = train(folder, out, *flags, "--profile", packages=tmp_path)
    assert run.returncode == 0, run.stderr
    for seed in (3, 4):
        lines = (out / f"baseline-seed{seed}.tsv").read_text().splitlines()
        result = json.loads((out / f"baseline-seed{seed}.json").read_text())
        assert lines[0] == "epoch\thours\tf1Score"
        assert [line.partition("\t")[0] for line in lines[1:]] == ["1"]
        assert (result["epochs"], result["config"]["training"]["seed"]) == (1, seed)
        assert result["data"] == {"dataset": "made", "trained_on": 25, "questions": questions}
        assert result["history"][0]["dev/f1"] / 100 == pytest.approx(result["dev_f1"], abs=1e-4)
        profile = result["profile"]
        assert profile["steps"] == 4, "all steps but the first, which also moves the data"
        assert profile["seconds_a_step"] > 0 and profile["device_busy"] is None
        assert 0 < sum(profile["operators"].values()) <= 1


def test_rejects_abbreviated_flags(tmp_path: Path) -> None:
    run = train(tmp_path, tmp_path, "--seed", "3", "4")
    assert run.returncode == 2
    assert "unrecognized arguments: --seed 3 4" in run.stderr


def test_short_epoch_is_trained_but_not_profiled(tmp_path: Path) -> None:
    data = prepare(tmp_path, articles=1)
    parts = (data.train.encoded, data.dev.encoded, data.vocabulary, data.vectors)
    gather(tmp_path / "packed", "made", *parts, data.dev.ingested)
    flags = ["--variant", "baseline", "--epochs", "1", "--seeds", "3", "--batch-size", "25"]
    run = train(tmp_path / "packed", tmp_path / "out", *flags, "--profile")
    assert run.returncode == 1
    assert "An epoch has only 1 step(s), too few to profile." in run.stderr
    assert json.loads((tmp_path / "out" / "baseline-seed3.json").read_text())["epochs"] == 1
