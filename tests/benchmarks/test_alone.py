"""The benchmark that trains with only torch, numpy, pyarrow and safetensors installed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.alone.packed import Packed
from benchmarks.alone.packing import gather, pack_data
from infra.settings import CHECKOUT
from tasks.evaluation.evaluate import load_split
from tests.factories.services import wait
from tests.factories.training_data import prepare

pytestmark = [pytest.mark.heavy, pytest.mark.full]

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
SMALL = ("--variant", "baseline", "--batch-size", "5")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset, with unanswerable questions."""
    folder = tmp_path_factory.mktemp("packed")
    gather(folder, prepare(tmp_path_factory.mktemp("data"), articles=1), "made")
    return folder


def start(*arguments: str | Path, packages: Path = CHECKOUT) -> subprocess.Popen[str]:
    """Start a training in its own process, with `packages` first on its import path."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.alone", "train", *arguments],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(packages), str(CHECKOUT)])},
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str | Path, **options: Any) -> tuple[int, str]:
    """The exit status and the errors of the command, with the options of `start`."""
    process = start(*arguments, **options)
    errors = process.communicate(timeout=800)[1]
    return process.returncode, errors


def results(out: Path) -> list[dict[str, Any]]:
    """The results of the trainings in the order of their names."""
    return [json.loads(file.read_text()) for file in sorted(out.glob("*.json"))]


def test_packs_a_dataset_of_the_catalogue(root: Path, prefect_server: None, tmp_path: Path) -> None:
    data = {"dataset": "own", "train_files": ["tiny"], "validation_share": 0.1}
    pack_data(tmp_path / "packed", data, "glove-6b-50d")
    found = Packed.load(tmp_path / "packed")
    assert found.about["dataset"] == "own"
    assert list(found.evaluated) == ["validation", "dev"]
    with pytest.raises(SystemExit, match="packed is not empty"):
        pack_data(tmp_path / "packed", data, "glove-6b-50d")


@pytest.fixture
def few_packages(tmp_path: Path) -> Path:
    """A folder for `packages` of `start`, with which only few packages can be imported."""
    # Python imports it when this process starts, and when the processes for the seeds start.
    (tmp_path / "sitecustomize.py").write_text(HIDE_PACKAGES.format(names=HIDDEN))
    return tmp_path


def test_trains_seeds_without_ray_prefect_or_mlflow(
    packed: Path, few_packages: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    flags = [*SMALL, "--epochs", "1", "--seeds", "3", "4"]
    status, errors = run(packed, out, *flags, packages=few_packages)
    assert status == 0, errors
    questions = len(load_split(packed / "dev" / "ingested"))
    for seed, result in zip((3, 4), results(out), strict=True):
        (lines,) = (file.read_text().splitlines() for file in out.glob(f"baseline-seed{seed}*.tsv"))
        assert lines[0] == "epoch\thours\tf1Score"
        assert [line.partition("\t")[0] for line in lines[1:]] == ["1"]
        assert (result["epochs"], result["config"]["training"]["seed"]) == (1, seed)
        assert result["data"] == {"dataset": "made", "trained_on": 25, "questions": questions}
        assert result["history"][0]["dev/f1"] / 100 == pytest.approx(result["dev_f1"], abs=1e-4)


def test_killed_training_goes_on_to_equal_scores(packed: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    flags = [*SMALL, "--epochs", "6", "--patience", "3", "--expected-no-answer", "0.5"]
    process = start(packed, out, *flags)
    wait("the results of an epoch", lambda: list(out.glob("*.tsv")))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = results(out)[0]["history"]
    (folder,) = (packed / "checkpoints").glob("baseline-seed0*")
    folder.rename(folder.with_name(f".{folder.name}-replaced"))  # killed while it was replaced
    assert run(packed, out, *flags)[0] == 0
    shutil.rmtree(folder)
    assert run(packed, again, *flags)[0] == 0
    (resumed,), (whole,) = results(out), results(again)
    names = ("epoch", "train/nll", "validation/f1", "validation/threshold", "dev/f1", "dev/nll")
    assert [[entry[name] for name in names] for entry in resumed["history"]] == [
        [entry[name] for name in names] for entry in whole["history"]
    ]
    assert resumed["history"][: len(before)] == before
    assert resumed["kept_epoch"] == whole["kept_epoch"]
