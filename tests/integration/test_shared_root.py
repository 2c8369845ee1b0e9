"""Machines that share nothing but an S3 server and MLflow: one trains and is killed, another one
resumes its training, and a third one takes everything from the first two."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from infra.artifacts.manifest import MANIFEST, read_manifest
from infra.settings import CHECKOUT
from tests.factories.cli import BIDAFLOW, ONE_WORKER, environment_for, kill, write_dataset
from tests.factories.object_store import object_store

pytestmark = [pytest.mark.heavy, pytest.mark.full]

FLAGS = (
    *("--variants", "char", "--training.hidden-size", "8", "--training.batch-size", "4"),
    *("--training.epochs", "4"),
    *ONE_WORKER,
)
DETERMINISTIC = ("ingest", "split", "select-vectors", "build-vocabulary", "encode")
"""Stages whose files are the same on every machine; a training's have times in them."""


@dataclass(frozen=True)
class Machine:
    """A cache of its own, and what the command needs to reach the servers."""

    cache: Path
    data: Path
    variables: dict[str, str]

    def start(self, **variables: str) -> subprocess.Popen[str]:
        variables |= self.variables | {"BIDAFLOW_CACHE": str(self.cache)}
        environment = environment_for(Path(), **variables)
        return subprocess.Popen(
            [BIDAFLOW, "train", "--data.dataset", str(self.data), *FLAGS],
            env=environment | {"BIDAFLOW_ROOT": self.variables["BIDAFLOW_ROOT"]},
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self) -> str:
        process = self.start()
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0, output
        return output

    def manifests(self) -> dict[str, dict[str, object]]:
        """The manifests of all stages in the cache, by stage and key."""
        folders = [file.parent for file in self.cache.rglob(f"stages/*/[!.]*/{MANIFEST}")]
        return {f"{folder.parent.name}/{folder.name}": read_manifest(folder) for folder in folders}

    def digests(self, *stages: str) -> dict[str, object]:
        return {
            name: manifest["digest"]
            for name, manifest in self.manifests().items()
            if name.partition("/")[0] in stages
        }

    def weights(self) -> bytes:
        (file,) = self.cache.rglob("stages/train/[!.]*/model/weights.safetensors")
        return file.read_bytes()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Machine, ...]]:
    """One with a local root, and three that share an S3 server."""
    data = write_dataset(tmp_path / "data")
    uri = {"BIDAFLOW_MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    local = tmp_path / "local"
    with object_store() as store:
        shared = {**store.variables, **uri, "BIDAFLOW_ROOT": "s3://results/team"}
        yield (
            Machine(local, data, {"BIDAFLOW_ROOT": str(local)}),
            *(Machine(tmp_path / name, data, shared) for name in ("first", "second", "third")),
        )


def test_machines_share_stages_and_checkpoints(machines: tuple[Machine, ...]) -> None:
    local, first, second, third = machines
    local.run()

    process = first.start(BIDAFLOW_CHECKPOINT_MINUTES="0.01")
    assert process.stdout is not None
    for line in process.stdout:
        if "epoch 2:" in line:
            break
    processes = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    kill(processes)
    process.wait()
    assert not first.digests("train")

    output = second.run()
    assert "epoch 4:" in output
    assert "epoch 1:" not in output, "it resumed from the checkpoint of the first machine"
    assert second.weights() == local.weights()
    assert second.digests(*DETERMINISTIC) == local.digests(*DETERMINISTIC)
    assert second.digests("train").keys() == local.digests("train").keys()
    assert first.manifests().items() < second.manifests().items()

    assert "Nothing to do" in third.run()
    assert third.manifests() == second.manifests()
