"""A training that runs out of memory, on a Ray cluster of this machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prefect import flow

from infra.cluster import ray_cluster
from infra.cluster.allotment import Allotment
from infra.errors import UserError
from infra.storage.store import checkpoint_storage
from tasks.training.ray_workers import resumable, run_workers

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server", "root")]


@dataclass(frozen=True)
class Job:
    """The file with a line for each attempt."""

    attempts: Path


def work(config: dict[str, Any]) -> None:
    with config["job"].attempts.open("a") as file:
        file.write("attempt\n")
    bytearray(2**62)


@pytest.fixture
def cluster() -> Iterator[None]:
    ray_cluster.connect()
    yield
    ray_cluster.disconnect()


def test_is_said_after_one_attempt(cluster: None, root: Path, tmp_path: Path) -> None:
    job, config = Job(tmp_path / "attempts"), resumable("key", checkpoint_storage())

    @flow
    def train() -> None:
        one = Allotment(workers=1, cpus_per_worker=1, gpus_per_worker=0)
        with pytest.raises(UserError, match=r"^Out of memory: .* resumes from the last checkpoint"):
            run_workers("char", work, job, one, config)

    train()
    assert job.attempts.read_text().splitlines() == ["attempt"]
    assert not list((root / "ray").glob("*.fault"))
