"""Trainings on the GPUs of a Ray cluster that declares two, on a machine that has none."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from prefect import flow
from ray.util.placement_group import placement_group, remove_placement_group

from infra.cluster.allotment import Allotment, Resources, allot, with_parallel_trainings
from infra.errors import UserError
from infra.storage.store import checkpoint_storage
from tasks.training.ray_workers import resumable, run_workers

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server", "root")]

WITH_GPU = """
import sys
from types import SimpleNamespace
if "torch.cuda.is_available()" in " ".join(sys.orig_argv):
    sys.modules["torch"] = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True))
"""
"""Makes the program that looks for a GPU before a training find one."""


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A local cluster with 4 declared CPUs and 2 declared GPUs, which trainings can be given."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(WITH_GPU, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "98,99")  # none of these numbers, on any machine
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        ray.init(address="local", num_cpus=4, num_gpus=2, object_store_memory=80 * 2**20)
        yield
        ray.shutdown()


@pytest.mark.parametrize(
    ("resources", "variants", "trainings", "workers", "gpus"),
    [
        (Resources(), 1, 1, 1, 1),
        (Resources(workers=2), 1, 1, 2, 1),  # one training on both
        (Resources(), 3, 2, 1, 1),  # a GPU for each of two trainings; the third one waits
        (Resources(trainings=4), 4, 4, 1, 0.5),  # two trainings on each GPU
        (Resources(workers=3), 1, 1, 3, 0),  # there is no third GPU
        (Resources(gpu=False), 1, 1, 1, 0),
    ],
)
def test_trainings_get_whole_gpus_or_shares(
    two_gpus: None,
    resources: Resources,
    variants: int,
    trainings: int,
    workers: int,
    gpus: float,
) -> None:
    shared = with_parallel_trainings(resources, variants)
    allotted = allot(shared)
    assert (shared.trainings, allotted.workers, allotted.gpus_per_worker) == (
        trainings,
        workers,
        gpus,
    )
    bundle = {"CPU": allotted.cpus_per_worker, "GPU": allotted.gpus_per_worker}
    group = placement_group(shared.trainings * workers * [bundle])
    assert group.wait(30), "Ray can run all of them at a time"
    remove_placement_group(group)


@dataclass(frozen=True)
class Job:
    """The file with a line for each attempt of a worker."""

    attempts: Path


def run_out_of_memory(config: dict[str, Any]) -> None:
    with config["job"].attempts.open("a") as file:
        file.write("attempt\n")
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB "
        "of which 1.06 GiB is free. Of the allocated memory 130.00 GiB is allocated by PyTorch"
    )


def trained(allotment: Allotment, folder: Path) -> tuple[str, int]:
    """The error of a training with this allotment, and the number of its attempts."""
    job, config, errors = Job(folder / "attempts"), resumable("key", checkpoint_storage()), []
    job.attempts.touch()

    @flow
    def train() -> None:
        with pytest.raises(UserError) as raised:
            run_workers("char", run_out_of_memory, job, allotment, config)
        errors.append(str(raised.value))

    train()
    assert not list(folder.rglob("*.fault"))
    return errors[0], len(job.attempts.read_text().splitlines())


def test_memory_of_a_gpu_is_not_tried_again(two_gpus: None, tmp_path: Path) -> None:
    """What torch says of a GPU, raised by a worker on the CPU."""
    error, attempts = trained(Allotment(workers=1, cpus_per_worker=1, gpus_per_worker=0), tmp_path)
    assert error.startswith("The GPU ran out of memory: CUDA out of memory. Tried to allocate 2.00")
    assert "1.06 GiB is free. Lower --training.batch-size" in error
    assert error.endswith(
        "run the command again. The same command resumes from the last checkpoint."
    )
    assert attempts == 1


def test_lost_gpu_ends_a_training(two_gpus: None, tmp_path: Path) -> None:
    error, attempts = trained(Allotment(workers=1, cpus_per_worker=1, gpus_per_worker=1), tmp_path)
    assert error.startswith("torch no longer finds the GPU of a worker on ")
    assert error.endswith("restart the machine. The same command resumes from the last checkpoint.")
    assert attempts == 0
