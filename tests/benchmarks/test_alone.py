"""The benchmark that trains where only torch, numpy and pyarrow are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.alone import gather
from infra.settings import CHECKOUT
from tests.tasks.prepared import prepare

pytestmark = pytest.mark.heavy

WITHOUT = """\
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
"""
"""What a process begins with, so that these packages are not installed for it."""

ABSENT = {"ray", "prefect", "mlflow", "pydantic", "gensim", "httpx", "rich", "scipy", "matplotlib"}


def test_seeds_are_trained_where_ray_prefect_and_mlflow_are_not(tmp_path: Path) -> None:
    data = prepare(tmp_path, articles=1)
    folder, out = tmp_path / "packed", tmp_path / "out"
    parts = (data.train.encoded, data.dev.encoded, data.vocabulary, data.vectors)
    gather(folder, "made", *parts, data.dev.ingested)
    flags = ["--variant", "baseline", "--epochs", "1", "--seeds", "3", "4", "--batch-size", "25"]
    # Read at the start of this process, and of those that it starts for the seeds.
    (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(names=ABSENT))
    subprocess.run(
        [sys.executable, "-m", "benchmarks.alone", "train", folder, out, *flags, "--profile"],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(CHECKOUT)])},
        check=True,
        timeout=800,
    )
    for seed in (3, 4):
        lines = (out / f"baseline-seed{seed}.tsv").read_text().splitlines()
        told = json.loads((out / f"baseline-seed{seed}.json").read_text())
        assert lines[0] == "epoch\thours\tf1Score"
        assert [line.partition("\t")[0] for line in lines[1:]] == ["1"]
        assert (told["epochs"], told["config"]["training"]["seed"]) == (1, seed)
        assert 0 < sum(told["profile"]["operators"].values()) <= 1
