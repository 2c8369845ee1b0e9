"""The Ray cluster, started here or joined through RAY_ADDRESS."""

import logging
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.exceptions import (
    AuthenticationError,
    GetTimeoutError,
    LocalRayletDiedError,
    RayError,
)
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from infra.cluster.job_environment import forwarded_variables, others_in_checkout
from infra.errors import UserError
from infra.plain_paths import plain
from infra.settings import CHECKOUT

Item = TypeVar("Item")


_CONNECTING = threading.Lock()

# Makes glibc's allocator and jemalloc keep freed memory, so that a step's large tensors reuse the
# memory of the last step's. By default each tensor is mapped anew, and zeroing its pages takes a
# quarter of a training step on a CPU.
#
# After ten seconds without use, the kernel may take the memory back (muzzy), but does so only if it
# needs it. If jemalloc kept all memory forever (dirty_decay_ms:-1), its free blocks would be ever
# smaller, and a long training would need several times as much. If it returned memory by itself
# (muzzy_decay_ms above -1), it would return blocks from 8 MiB at once, whatever the time is, which
# makes trainings slower by a fifth. benchmarks/training_memory.py compares settings.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_CONF": "dirty_decay_ms:10000,muzzy_decay_ms:-1,oversize_threshold:0",
}

# Silences DistributedDataParallel's warning about its search for unused parameters, which is
# intended.
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}

CONNECT_SECONDS = 10.0

# Workers start within seconds, on a busy machine within a minute or two.
WORKER_SECONDS = 300.0

# What Ray's error says if a cluster on this machine is not ready after 30 seconds.
NOT_READY = "timed out during startup"

# With 64, Ray's processes take each other for dead, without a word about files.
LEAST_OPEN_FILES = 256

RAY_HOME = Path.home() / ".ray"  # has the token of clusters that are started here

# How Ray's error begins if its version, or that of Python, differs from the cluster's.
VERSION_MISMATCH = "Version mismatch: "

# Why this machine can't join a cluster, and what to do, by what Ray's errors say.
REASONS = {
    "Could not find any running Ray instance": (
        "RAY_ADDRESS is {address}, but no Ray cluster runs on this machine. Start one by ray start "
        "--head, or set RAY_ADDRESS to the host:port of a cluster."
    ),
    "No node info found": (
        "This machine is not a node of the Ray cluster at {address}. Let it join: ray start "
        "--address={address} --num-cpus=0 --num-gpus=0"
    ),
}

# The interface on which the workers of a cluster started here talk to each other.
LOOPBACK_INTERFACE = "lo0" if sys.platform == "darwin" else "lo"


def is_remote() -> bool:
    """Whether a cluster that runs elsewhere is used (RAY_ADDRESS is set)."""
    return bool(os.environ.get("RAY_ADDRESS"))


def is_connected() -> bool:
    """Whether this process has joined a cluster."""
    return bool(ray.is_initialized())


def connect(worker_seconds: float = WORKER_SECONDS) -> float:
    """Join the cluster, or start one on this machine, and return the seconds that this took.

    If the process is connected already, return the seconds that connecting took then. Parallel
    trainings may all call it.

    Raises:
        UserError: the cluster in RAY_ADDRESS can't be reached, refuses the token, or has another
            version of Ray or Python; or this machine is too busy to start one, or the home folder
            can't be written; or no worker of the cluster starts within `worker_seconds`.
    """
    with _CONNECTING:
        if not ray.is_initialized():
            _start.cache_clear()
        return _start(worker_seconds)


@cache
def _start(worker_seconds: float) -> float:
    start = time.perf_counter()
    logs = _join(os.environ["RAY_ADDRESS"]) if is_remote() else _start_here()
    _require_worker(worker_seconds, logs)
    return time.perf_counter() - start


@ray.remote(num_cpus=0)  # type: ignore[untyped-decorator]
def _do_nothing() -> None:
    pass


def _require_worker(seconds: float, logs: Path) -> None:
    """Wait for the first worker of the cluster, which later tasks use.

    Ray itself would wait forever for workers that can't start, for example because they can't
    import it.

    Raises:
        UserError: it does not start within this time, or Ray itself ends.
    """
    try:
        ray.get(_do_nothing.remote(), timeout=seconds)
    except (GetTimeoutError, LocalRayletDiedError) as error:
        ray.shutdown()
        ended = isinstance(error, LocalRayletDiedError)
        when = "before Ray ended by itself" if ended else f"within {seconds:g} seconds"
        raise UserError(
            f"No worker of Ray started {when}. raylet.err and worker-*.err in "
            f"{logs} say why; if they say nothing, the machine is too busy."
        ) from error


def _start_here() -> Path:
    """Start a cluster on this machine, and return the folder of its logs."""
    _require_open_files()
    variables = allocator_variables() | _local_cluster_variables() | QUIET
    try:
        context = ray.init(
            address="local",
            # By default Ray would take a third of the memory, but stages pass files, not objects.
            object_store_memory=200 * 2**20,
            include_dashboard=True,
            runtime_env={"env_vars": variables},
            logging_level=logging.ERROR,
        )
    except Exception as error:  # Ray raises nothing more specific
        if isinstance(error, OSError) and str(error.filename).startswith(str(RAY_HOME)):
            raise UserError(
                f"Ray can't write {error.filename}: {error.strerror}. Set HOME to a folder that "
                "you can write to: Ray keeps a token there."
            ) from error
        if NOT_READY not in str(error):
            raise
        raise UserError(
            "Ray was not ready after 30 seconds: other programs keep this machine busy. Rerun the "
            "flow when they have ended. Finished steps are kept."
        ) from error
    return _logs(context)


def _require_open_files() -> None:
    """Raises UserError if this process, and so Ray's, may open too few files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # -1: any number
    if 0 <= limit < LEAST_OPEN_FILES:
        raise UserError(
            f"At most {limit} files may be open, too few for Ray. Allow more, for example by "
            "`ulimit -n 4096`, and run the same command again: it resumes."
        )


def _logs(context: Any) -> Path:
    """The folder of Ray's logs on each node of the cluster that `ray.init` has joined."""
    return Path(context.address_info["session_dir"]) / "logs"


def _join(address: str) -> Path:
    """Join a cluster, whose nodes get our packages, and return the folder of their logs."""
    _require_reachable(address)
    environment = {
        "working_dir": str(CHECKOUT),
        "excludes": others_in_checkout(),
        "env_vars": KEEP_FREED_MEMORY | forwarded_variables() | QUIET,
    }
    try:
        context = ray.init(address=address, runtime_env=environment, logging_level=logging.ERROR)
    except (ConnectionError, AuthenticationError, RuntimeError) as error:
        if reason := _reason(address, error):
            raise UserError(reason) from error
        raise
    return _logs(context)


def _reason(address: str, error: Exception) -> str | None:
    """Why this machine can't join a cluster, and what to do; None if the error is another one."""
    text = str(error)
    for words, reason in REASONS.items():
        if words in text:
            return reason.format(address=address)
    if VERSION_MISMATCH in text:
        versions = " ".join(text.partition(VERSION_MISMATCH)[2].split())
        return (
            f"The Ray cluster at {address} has another version of Ray or Python than this "
            f"machine. {versions}. Install the cluster's versions here."
        )
    if isinstance(error, ConnectionError | AuthenticationError):
        return (
            f"The Ray cluster at {address} refuses the connection. Set RAY_AUTH_MODE=token, "
            "and RAY_AUTH_TOKEN_PATH to the file with the cluster's token."
        )
    return None


def _require_reachable(address: str) -> None:
    """Raises UserError if nothing answers at the address: Ray would wait for two minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise UserError(
            f"No Ray cluster answers at {address} ({error}). Start it, or correct RAY_ADDRESS."
        ) from error


def _local_cluster_variables() -> dict[str, str]:
    """Variables that tell the processes of a cluster started here where it and the project are.

    Without them, Ray would look for any cluster on the machine, and fail if two trainings have one
    each. This also sets RAY_GCS_SERVER_PORT to a free port, so call it just before the cluster
    starts.
    """
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    os.environ["RAY_GCS_SERVER_PORT"] = str(port)
    # The packages may be on the caller's PYTHONPATH. Its relative paths are relative to this
    # process's folder.
    own = os.environ.get("PYTHONPATH")
    folders = [CHECKOUT, *map(Path, own.split(os.pathsep) if own else ())]
    return {
        "PYTHONPATH": os.pathsep.join(str(plain(folder)) for folder in folders),
        "RAY_ADDRESS": f"{ray.util.get_node_ip_address()}:{port}",
        "GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE,
        "NCCL_SOCKET_IFNAME": LOOPBACK_INTERFACE,
    }


def allocator_variables() -> dict[str, str]:
    """Variables that make processes that train on this machine keep freed memory.

    They load jemalloc if Ray's wheel contains it: it finds free memory faster than glibc if tensor
    sizes differ from step to step.
    """
    library = Path(ray.__file__).parent / "core" / "libjemalloc.so"
    # The dynamic linker splits LD_PRELOAD at spaces and colons, and knows no escapes.
    usable = library.exists() and not {" ", ":"} & set(str(library))
    return KEEP_FREED_MEMORY | ({"LD_PRELOAD": str(library)} if usable else {})


def nodes() -> set[str]:
    """The ids of the nodes of the connected cluster that are alive."""
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def summary() -> str:
    """The number of nodes of the connected cluster, and their resources in total."""
    resources = ray.cluster_resources()
    cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    return f"{len(nodes())} node(s), {cpus} CPU(s), {gpus} GPU(s)"


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
    # The queue is an actor; as a long-running one, it must not occupy a CPU or die for good. It is
    # on this process's node, so other nodes can die without it.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    queue = Queue(
        actor_options={
            "num_cpus": 0,
            "max_restarts": -1,
            "max_task_retries": -1,
            "scheduling_strategy": here,
        }
    )

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
