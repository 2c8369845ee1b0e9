"""SIGKILL in every stage at random moments: what is finished stays, the rest comes out equal."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL

from tasks.manifests import MANIFEST
from tasks.stages import BUILDING
from tasks.tiny import generate

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

STAGES = ("ingest", "split", "select-vectors", "build-vocabulary", "encode")
KILLS_PER_STAGE = 6


def run_flow(root: Path, train: Path, dev: Path) -> None:
    """The flow from files to encoded splits, as a process of its own runs it."""
    os.environ["BIDAFLOW_ROOT"] = str(root)
    from flows.parameters import DataParameters
    from flows.vocabulary import build_vocabulary

    build_vocabulary(
        DataParameters(dataset="killed", train_files=[str(train)], dev_files=[str(dev)])
    )


class Victim:
    """Runs the flow over a root, in processes that have loaded its modules already."""

    def __init__(self, root: Path, files: tuple[Path, Path]) -> None:
        self.root, self.files = root, files

    def start(self) -> BaseProcess:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["flows.vocabulary"])
        process = context.Process(target=run_flow, args=(self.root, *self.files))
        process.start()
        return process

    def finish(self) -> None:
        process = self.start()
        process.join(120)
        assert process.exitcode == 0

    def kill_in(self, stage: str, delay: float) -> bool:
        """Kill the flow some seconds after it has begun a stage; whether that broke the stage."""
        process = self.start()
        while process.is_alive() and not self.is_building(stage):
            time.sleep(0.002)
        time.sleep(delay)
        process.kill()
        process.join()
        assert process.exitcode in (-signal.SIGKILL, 0)
        return self.is_building(stage)

    def is_building(self, stage: str) -> bool:
        return any((self.root / "stages" / stage).glob(f"{BUILDING}*"))

    def lose(self, stage: str) -> None:
        """Remove what the stage has finished, so that it is made again."""
        for manifest in self.manifests():
            if manifest.startswith(f"stages/{stage}/"):
                shutil.rmtree(self.root / manifest)

    def manifests(self) -> dict[str, str]:
        """The manifest of every finished stage."""
        return {
            str(file.parent.relative_to(self.root)): file.read_text()
            for file in (self.root / "stages").glob(f"*/[!.]*/{MANIFEST}")
        }

    def digests(self) -> dict[str, str]:
        return {name: json.loads(manifest)["digest"] for name, manifest in self.manifests().items()}

    def seconds(self, stage: str) -> float:
        """How long the stage took at least."""
        told = [json.loads(manifest) for manifest in self.manifests().values()]
        return min(float(each["seconds"]) for each in told if each["stage"] == stage)


@pytest.fixture
def files(tmp_path: Path, prefect_server: None) -> Iterator[tuple[Path, Path]]:
    """Two small files of questions; the processes have one server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_URL", PREFECT_API_URL.value() or "")
        paths = tmp_path / "train.json", tmp_path / "dev.json"
        for path, data in zip(paths, generate(3), strict=True):
            path.write_text(json.dumps({**data, "data": data["data"][:30]}))
        yield paths


def test_kills_leave_what_is_finished_and_change_no_result(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed of the moments: {seed}")
    moments = random.Random(seed)
    undisturbed, killed = (Victim(tmp_path / name, files) for name in ("whole", "killed"))
    undisturbed.finish()
    broken: Counter[str] = Counter()
    for stage in STAGES:
        longest = undisturbed.seconds(stage)
        for _ in range(KILLS_PER_STAGE):
            killed.lose(stage)
            finished = killed.manifests()
            broken[stage] += killed.kill_in(stage, moments.uniform(0, longest))
            assert killed.manifests().items() >= finished.items(), "made a second time"
    finished = killed.manifests()
    print(f"stages broken off: {dict(broken)} of {len(STAGES) * KILLS_PER_STAGE} kills")
    assert all(broken[stage] for stage in STAGES)
    killed.finish()
    assert killed.manifests().items() >= finished.items()
    assert killed.digests() == undisturbed.digests()
    assert not any(killed.is_building(stage) for stage in STAGES)
