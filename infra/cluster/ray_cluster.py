"""The Ray cluster, started here or joined through RAY_ADDRESS."""

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import ray
from ray.exceptions import RayError
from ray.util.queue import Queue

from infra.settings import CHECKOUT

Item = TypeVar("Item")


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
