"""What a training asks of the Ray cluster, and what it is allotted."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from infra.errors import UserError
from infra.form import Form
from infra.settings import settings

# Ray and torch are imported where they are used: they take long to load, and help needs neither.


class Resources(Form):
    """The resources of one training run."""

    workers: int = Field(
        1, ge=1, le=1024, description="Data-parallel workers (processes) of each training."
    )
    # Excluded from cache keys, like `trainings`: cores and parallel trainings change a result by no
    # more than rounding, and a training that resumes keeps its number of threads.
    cpus_per_worker: int = Field(
        0,
        ge=0,
        le=1024,
        exclude=True,
        description="CPU cores per worker. 0: divide the available cores among the workers.",
    )
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

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a training's MLflow run."""
        return {**self.model_dump(), "cpus_per_worker": self.cpus_per_worker}


class Allotment(BaseModel, frozen=True):
    """Resources as allotted on the cluster, with every open choice filled in."""

    workers: int
    cpus_per_worker: int
    gpus_per_worker: float  # 0 on CPUs; a fraction if trainings share a GPU

    def __str__(self) -> str:
        """The number of workers and the resources of each, in words."""
        gpus = f", {self.gpus_per_worker:g} GPU" if self.gpus_per_worker else ""
        return f"{self.workers} worker(s) with {self.cpus_per_worker} CPU(s){gpus} each"


# torch needs seconds to find a GPU, unless the driver hangs.
GPU_SECONDS = 300.0


def torch_sees_a_gpu(seconds: float = GPU_SECONDS) -> bool | None:
    """Whether torch finds a GPU; None if it does not say so within this time."""
    # A process of its own, because nothing else ends one that waits for the driver.
    program = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        return None


class NodeResources(NamedTuple):
    """The CPU cores and GPUs of a node."""

    cpus: int
    gpus: int

    def room(self, cpus: int, gpus: float) -> int:
        """The number of workers with these resources that the node can run at a time."""
        by_cpus = self.cpus // cpus
        # 1 / 3 of a GPU, for example, is a little more or less than a third.
        return min(by_cpus, int(self.gpus / gpus + 1e-6)) if gpus else by_cpus


Nodes = Sequence[NodeResources]


def room(nodes: Nodes, cpus: int, gpus: float) -> int:
    """The number of workers with these resources that nodes can run at a time."""
    return sum(node.room(cpus, gpus) for node in nodes)


def most_cpus(nodes: Nodes, workers: int, gpus: float) -> int:
    """The largest number of CPU cores that each of the workers can have; at least 1."""
    largest = max((node.cpus for node in nodes), default=1)
    fitting = (cpus for cpus in range(largest, 1, -1) if room(nodes, cpus, gpus) >= workers)
    return next(fitting, 1)


def nodes_for(resources: Resources) -> Nodes:
    """The nodes of the cluster; those that an autoscaler can start, if the workers need them."""
    import ray

    alive = [_resources(node["Resources"]) for node in ray.nodes() if node["Alive"]]
    needed = max(1, resources.cpus_per_worker), 1 if resources.gpu else 0
    return alive if room(alive, *needed) >= resources.workers else _startable() or alive


def _startable() -> Nodes:
    """The nodes that the cluster's autoscaler can start; none if it has no autoscaler.

    Ray does not know them: only the autoscaler itself reads the cluster's configuration.
    """
    return [
        NodeResources(group.cpus, group.gpus)
        for group in settings().node_groups or ()
        for _ in range(group.nodes)
    ]


def _resources(resources: Mapping[str, float]) -> NodeResources:
    return NodeResources(*(int(resources.get(kind, 0)) for kind in ("CPU", "GPU")))


def with_parallel_trainings(resources: Resources, trainings: int) -> Resources:
    """The request of each of several trainings, with the number that run in parallel filled in.

    Unless the request sets that number, the cluster's CPUs limit it, and its GPUs if they are used.
    """
    nodes = nodes_for(resources)
    uses_gpus = resources.gpu is not False and _gpus(nodes) >= resources.workers
    fitting = room(nodes, max(1, resources.cpus_per_worker), 1 if uses_gpus else 0)
    parallel = max(1, min(trainings, fitting // resources.workers))
    return resources.model_copy(update={"trainings": resources.trainings or parallel})


def _gpus(nodes: Nodes) -> int:
    return sum(node.gpus for node in nodes)


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
        UserError: the cluster's nodes have fewer CPUs or GPUs, or torch sees no GPU on them, or
            can't find out.
    """
    import ray

    nodes = nodes_for(resources)
    gpus, workers = _gpus(nodes), resources.workers
    gpu = gpus >= workers if resources.gpu is None else resources.gpu
    if gpu and gpus < workers:
        raise UserError(
            f"{workers} worker(s) with a GPU each were requested, but the cluster has "
            f"{gpus} GPU(s). Reduce resources.workers, or set resources.gpu to false."
        )
    fraction = gpu_fraction(resources, gpus) if gpu else 0
    # Request no more of a GPU than the training takes: others may train on the rest.
    ask = ray.remote(num_cpus=0, num_gpus=fraction)(torch_sees_a_gpu)
    seen = ray.get(ask.remote()) if gpu else False
    if seen is None:
        raise UserError(
            f"torch did not find the GPU within {GPU_SECONDS:g} seconds on the node where Ray "
            "reports one: its driver may hang. Run nvidia-smi there, or set resources.gpu to false."
        )
    if gpu and not seen:
        if resources.gpu:
            raise UserError(
                "A GPU was requested, but torch sees none on the node where Ray reports one. "
                "Install an NVIDIA driver and a CUDA build of torch there, or set resources.gpu "
                "to false."
            )
        fraction = 0
    parallel_workers = workers * max(1, resources.trainings)
    allotment = Allotment(
        workers=workers,
        cpus_per_worker=resources.cpus_per_worker or most_cpus(nodes, parallel_workers, fraction),
        gpus_per_worker=fraction,
    )
    fitting = room(nodes, allotment.cpus_per_worker, fraction)
    if fitting < workers:
        raise UserError(
            f"{allotment} were requested, but the cluster has room for {fitting}: it has "
            f"{_in_words(nodes)}. Reduce resources.workers or resources.cpus_per_worker."
        )
    return allotment


def _in_words(nodes: Nodes) -> str:
    """For example: 2 node(s) with 4 CPU(s) and 1 GPU(s)."""
    counts = sorted(Counter(nodes).items(), reverse=True)
    return ", ".join(
        f"{count} node(s) with {node.cpus} CPU(s) and {node.gpus} GPU(s)" for node, count in counts
    )
