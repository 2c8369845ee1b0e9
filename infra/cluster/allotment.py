"""What a training asks of the Ray cluster, and what it is allotted."""

import math

import ray
from pydantic import BaseModel, Field

from infra.errors import UserError

# torch is imported where it is used: it takes seconds to load, and only Ray's workers need it.


class Resources(BaseModel, frozen=True, extra="forbid"):
    """The resources of one training run."""

    workers: int = Field(
        1, ge=1, le=1024, description="Data-parallel workers (processes) of each training."
    )
    cpus_per_worker: int = Field(
        0,
        ge=0,
        le=1024,
        description="CPU cores per worker. 0: divide the available cores among the workers.",
    )
    # Excluded from cache keys: parallel trainings change a result by no more than rounding.
    trainings: int = Field(
        0,
        ge=0,
        le=1024,
        exclude=True,
        description="Trainings that run in parallel. 0: as many as the CPUs and GPUs allow. "
        "Single-worker trainings can share a GPU.",
    )
    gpu: bool | None = Field(
        None, description="Use GPUs, one per worker. Empty: if the cluster has them."
    )


class Allotment(BaseModel, frozen=True):
    """Resources as allotted on the cluster, with every open choice filled in."""

    workers: int
    cpus_per_worker: int
    gpus_per_worker: float  # 0 on CPUs; a fraction if trainings share a GPU

    def __str__(self) -> str:
        """The number of workers and the resources of each, in words."""
        gpus = f", {self.gpus_per_worker:g} GPU" if self.gpus_per_worker else ""
        return f"{self.workers} worker(s) with {self.cpus_per_worker} CPU(s){gpus} each"


@ray.remote(num_cpus=0)  # type: ignore[untyped-decorator]
def _torch_sees_a_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def with_parallel_trainings(resources: Resources, trainings: int) -> Resources:
    """The request of each of several trainings, with the number that run in parallel filled in.

    Unless the request sets that number, the cluster's CPUs limit it, and its GPUs if they are used.
    """
    available = ray.cluster_resources()
    cpus, gpus = int(available.get("CPU", 0)), int(available.get("GPU", 0))
    fitting = cpus // (resources.workers * max(1, resources.cpus_per_worker))
    if gpus >= resources.workers and resources.gpu is not False:
        fitting = min(fitting, gpus // resources.workers)
    return resources.model_copy(
        update={"trainings": resources.trainings or max(1, min(trainings, fitting))}
    )


def gpu_fraction(resources: Resources, gpus: int) -> float:
    """The number of GPUs for each worker: 1, or a fraction if trainings share GPUs.

    They share if more single-worker trainings run in parallel than there are GPUs. Several workers
    of one training can't use the same GPU.
    """
    if resources.workers > 1:
        return 1.0
    return 1 / math.ceil(max(1, resources.trainings) / gpus)


def allot(resources: Resources) -> Allotment:
    """Check a request against the connected cluster, and fill in what it leaves open.

    The check is needed because Ray would wait forever for resources that do not exist.

    Raises:
        UserError: the cluster has fewer CPUs or GPUs, or torch sees no GPU on this machine.
    """
    available = ray.cluster_resources()
    gpus, cpus = int(available.get("GPU", 0)), int(available.get("CPU", 0))
    gpu = gpus >= resources.workers if resources.gpu is None else resources.gpu
    if gpu and gpus < resources.workers:
        raise UserError(
            f"{resources.workers} worker(s) with a GPU each were requested, but the cluster has "
            f"{gpus} GPU(s). Reduce resources.workers, or set resources.gpu to false."
        )
    fraction = gpu_fraction(resources, gpus) if gpu else 0
    # Request no more of a GPU than the training takes: others may train on the rest.
    if gpu and not ray.get(_torch_sees_a_gpu.options(num_gpus=fraction).remote()):
        if resources.gpu:
            raise UserError(
                "A GPU was requested, but torch sees none on the node where Ray reports one. "
                "Install an NVIDIA driver and a CUDA build of torch there, or set resources.gpu "
                "to false."
            )
        fraction = 0
    parallel_workers = resources.workers * max(1, resources.trainings)
    per_worker = resources.cpus_per_worker or max(1, cpus // parallel_workers)
    if per_worker * resources.workers > cpus:
        raise UserError(
            f"{resources.workers} worker(s) with {per_worker} CPU(s) each were requested, but the "
            f"cluster has {cpus} CPU(s). Reduce resources.workers or resources.cpus_per_worker."
        )
    return Allotment(
        workers=resources.workers,
        cpus_per_worker=per_worker,
        gpus_per_worker=fraction,
    )
