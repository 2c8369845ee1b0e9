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

from benchmarks.alone.collecting import collect_answers
from benchmarks.alone.packed import Packed
from benchmarks.alone.packing import gather, pack_data
from benchmarks.published_table import write
from benchmarks.trainings.answered import read_answers
from infra.settings import CHECKOUT
from tasks.evaluation.evaluate import load_split
from tests.factories.services import wait
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
INPUTS = {"questions": "25", "vectors": "glove"}
ABOUT = {"dataset": "made", "git": "c0ffee", "data": "da7a", "inputs": INPUTS}
SMALL = ("--variant", "baseline", "--batch-size", "5")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset, with unanswerable questions."""
    folder = tmp_path_factory.mktemp("packed")
    gather(folder, prepare(tmp_path_factory.mktemp("data"), articles=1), ABOUT)
    return folder


def start(*arguments: str | Path, packages: Path = CHECKOUT) -> subprocess.Popen[str]:
    """Start the command in its own process, with `packages` first on its import path."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.alone", "train", *arguments],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(packages), str(CHECKOUT)])},
        stderr=subprocess.PIPE,
        text=True,
    )


def train(*arguments: str | Path, packages: Path = CHECKOUT) -> tuple[int, str]:
    """The exit status and the errors of the command."""
    process = start(*arguments, packages=packages)
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
    assert found.about["inputs"]["vectors"] == "glove-6b-50d"
    assert list(found.evaluated) == ["validation", "dev"]
    assert found.about["inputs"]["questions"] == f"{len(found.train):,}"
    with pytest.raises(SystemExit, match="packed is not empty"):
        pack_data(tmp_path / "packed", data, "glove-6b-50d")


def test_trains_seeds_without_ray_prefect_or_mlflow(packed: Path, tmp_path: Path) -> None:
    # Python imports it when this process starts, and when the processes for the seeds start.
    (tmp_path / "sitecustomize.py").write_text(HIDE_PACKAGES.format(names=HIDDEN))
    out = tmp_path / "out"
    flags = [*SMALL, "--epochs", "1", "--seeds", "3", "4", "--profile"]
    status, errors = train(packed, out, *flags, packages=tmp_path)
    assert status == 0, errors
    questions = len(load_split(packed / "dev" / "ingested"))
    for seed, result in zip((3, 4), results(out), strict=True):
        (lines,) = (file.read_text().splitlines() for file in out.glob(f"baseline-seed{seed}*.tsv"))
        assert lines[0] == "epoch\thours\tf1Score"
        assert [line.partition("\t")[0] for line in lines[1:]] == ["1"]
        assert (result["epochs"], result["config"]["training"]["seed"]) == (1, seed)
        assert result["data"] == {"dataset": "made", "trained_on": 25, "questions": questions}
        assert result["history"][0]["dev/f1"] / 100 == pytest.approx(result["dev_f1"], abs=1e-4)
        profile = result["profile"]
        assert profile["steps"] == 4, "all steps but the first, which also moves the data"
        assert profile["seconds_a_step"] > 0 and profile["device_busy"] is None
        assert 0 < sum(profile["operators"].values()) <= 1


def test_killed_training_goes_on_to_equal_answers(packed: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    flags = [*SMALL, "--epochs", "6", "--patience", "3", "--expected-no-answer", "0.5"]
    process = start(packed, out, *flags)
    wait("the results of an epoch", lambda: list(out.glob("*.tsv")))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = results(out)[0]["history"]
    (folder,) = (packed / "checkpoints").glob("baseline-seed0*")
    folder.rename(folder.with_name(f".{folder.name}-replaced"))  # killed while it was replaced
    assert train(packed, out, *flags)[0] == 0
    shutil.rmtree(folder)
    assert train(packed, again, *flags)[0] == 0
    (resumed,), (whole,) = results(out), results(again)
    names = ("epoch", "train/nll", "validation/f1", "validation/threshold", "dev/f1", "dev/nll")
    assert [[entry[name] for name in names] for entry in resumed["history"]] == [
        [entry[name] for name in names] for entry in whole["history"]
    ]
    assert resumed["history"][: len(before)] == before
    validation, answers = collect_answers(packed, out, tmp_path / "results")
    assert validation.name == f"validation-{answers.name}"
    write(tmp_path / "results", 0.5, "")
    (row, _) = json.loads((tmp_path / "results" / "published.json").read_text())["table"]
    kept = resumed["history"][resumed["kept_epoch"] - 1]
    assert float(row["F1"]) == pytest.approx(kept["dev/f1_at_threshold"], abs=0.01)
    assert float(row["EM"]) == pytest.approx(kept["dev/em_at_threshold"], abs=0.01)
    assert float(row["NLL"]) == pytest.approx(kept["dev/nll"], abs=0.01)
    assert float(row["threshold"]) == pytest.approx(kept["validation/threshold"], abs=0.01)
    assert row["epoch kept"] == str(resumed["kept_epoch"])
    assert read_answers(answers).training.inputs == INPUTS


def test_early_stopping_needs_validation(packed: Path, tmp_path: Path) -> None:
    for name in ("train", "dev"):
        shutil.copytree(packed / name, tmp_path / name)
    for file in packed.glob("*.*"):
        shutil.copy(file, tmp_path)
    status, errors = train(tmp_path, tmp_path / "out", *SMALL, "--patience", "2")
    assert status == 1 and "has no validation split. Omit --patience." in errors


def test_rejects_abbreviated_flags(tmp_path: Path) -> None:
    status, errors = train(tmp_path, tmp_path, "--seed", "3", "4")
    assert status == 2 and "unrecognized arguments: --seed 3 4" in errors


def test_short_epoch_is_trained_but_not_profiled(packed: Path, tmp_path: Path) -> None:
    flags = ["--variant", "baseline", "--epochs", "1", "--seeds", "3", "--batch-size", "25"]
    status, errors = train(packed, tmp_path, *flags, "--profile")
    assert status == 1
    assert "An epoch has only 1 step(s), too few to profile." in errors
    assert results(tmp_path)[0]["epochs"] == 1
