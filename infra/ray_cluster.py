"""The Ray cluster, started here or joined through RAY_ADDRESS, and its allotment to trainings."""

import logging
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import ray
from pydantic import BaseModel, Field
from ray.exceptions import RayError
from ray.util.queue import Queue

from infra.errors import UserError
from infra.settings import CHECKOUT

# torch is imported where it is used: it takes seconds to load, and only Ray's workers need it.

Item = TypeVar("Item")
Result = TypeVar("Result")


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


_CONNECTING = threading.Lock()

# Makes glibc's allocator and jemalloc keep freed memory, so that a step's large tensors reuse the
# memory of the last step's. By default each tensor is mapped anew, and zeroing its pages takes a
# quarter of a training step on a CPU.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0",
}

# The interface on which the workers of a cluster started here talk to each other.
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def is_remote() -> bool:
    """Whether a cluster that runs elsewhere is used (RAY_ADDRESS is set)."""
    return bool(os.environ.get("RAY_ADDRESS"))


def is_connected() -> bool:
    """Whether this process has joined a cluster."""
    return bool(ray.is_initialized())


def connect() -> float:
    """Join the cluster, or start one on this machine, and return the seconds that this took.

    If the process is connected already, return the seconds that connecting took then. Parallel
    trainings may all call it.
    """
    with _CONNECTING:
        if not ray.is_initialized():
            _start.cache_clear()
        return _start()


@cache
def _start() -> float:
    start = time.perf_counter()
    variables = (
        KEEP_FREED_MEMORY if is_remote() else allocator_variables() | _local_cluster_variables()
    )
    ray.init(
        address=os.environ.get("RAY_ADDRESS") or "local",
        # By default Ray would take a third of the memory, but stages pass files, not objects.
        object_store_memory=None if is_remote() else 200 * 2**20,
        include_dashboard=None if is_remote() else True,
        # The level silences DistributedDataParallel's warning about its search for unused
        # parameters, which is intended.
        runtime_env={"env_vars": variables | {"TORCH_CPP_LOG_LEVEL": "ERROR"}},
        logging_level=logging.ERROR,
    )
    return time.perf_counter() - start


def _local_cluster_variables() -> dict[str, str]:
    """Variables that tell the processes of a cluster started here where it and the project are.

    Without them, Ray would look for any cluster on the machine, and fail if two trainings have one
    each. This also sets RAY_GCS_SERVER_PORT to a free port, so call it just before the cluster
    starts.
    """
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    os.environ["RAY_GCS_SERVER_PORT"] = str(port)
    return {
        "PYTHONPATH": str(CHECKOUT),
        "RAY_ADDRESS": f"{ray.util.get_node_ip_address()}:{port}",
        "GLOO_SOCKET_IFNAME": LOOPBACK,
        "NCCL_SOCKET_IFNAME": LOOPBACK,
    }


def allocator_variables() -> dict[str, str]:
    """Variables that make processes that train on this machine keep freed memory.

    They load jemalloc if Ray's wheel contains it: it finds free memory faster than glibc if tensor
    sizes differ from step to step.
    """
    library = Path(ray.__file__).parent / "core" / "libjemalloc.so"
    return KEEP_FREED_MEMORY | ({"LD_PRELOAD": str(library)} if library.exists() else {})


def summary() -> str:
    """The number of nodes of the connected cluster, and their resources in total."""
    resources = ray.cluster_resources()
    nodes = sum(node["Alive"] for node in ray.nodes())
    cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    return f"{nodes} node(s), {cpus} CPU(s), {gpus} GPU(s)"


def disconnect() -> None:
    """Leave the cluster; a cluster that was started here is shut down."""
    if ray.is_initialized():
        ray.shutdown()


def map_on_cluster(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield function(item) for every item, on the cluster if one is named or connected.

    There, about twice as many items as it has CPUs are in progress at a time, and results come in
    any order. Without a cluster, the items are processed here, one after the other.
    """
    if not (is_remote() or ray.is_initialized()):
        yield from map(function, items)
        return
    connect()
    task = ray.remote(function)
    max_running = 2 * int(ray.cluster_resources().get("CPU", 1))
    running: list[ray.ObjectRef] = []
    for item in items:
        running.append(task.remote(item))
        if len(running) >= max_running:
            (done,), running = ray.wait(running)
            yield ray.get(done)
    yield from map(ray.get, running)


@contextmanager
def receiving(receive: Callable[[Item], None]) -> Iterator[Callable[[Item], None]]:
    """Yield a function that any process of the cluster may call to send an item to this one.

    `receive` gets each item within the block, in a thread, in the order in which they were sent. An
    item that was sent arrives even if its sender is killed afterwards.
    """
    # The queue is an actor; as a long-running one, it must not occupy a CPU or die for good.
    queue = Queue(actor_options={"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1})

    def receive_all() -> None:
        with suppress(RayError):  # the cluster has been shut down
            for item in iter(queue.get, None):
                receive(item)

    receiver = threading.Thread(target=receive_all, daemon=True)
    receiver.start()
    try:
        yield queue.put
    finally:
        with suppress(RayError):
            queue.put(None)
            receiver.join()
            queue.shutdown(force=True)


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
