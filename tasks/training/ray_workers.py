"""Runs trainings on Ray's workers: their start and results, and what all workers need."""

import logging
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import ray
import torch
from ray.exceptions import RayActorError
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    ControllerError,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
    UserCallback,
    WorkerGroupError,
)
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model
from torch import nn

from infra.artifacts.node_cache import portable
from infra.cluster.allotment import Allotment
from infra.cluster.ray_cluster import is_remote, nodes, receiving
from infra.errors import RetryableError, UserError, fault_of_machine, first_line
from infra.progress import Progress
from infra.reporting.progress_reporter import ProgressReporter
from infra.settings import settings
from infra.storage.store import Store

# Interval at which the first worker sends its progress to the driver.
PROGRESS_SECONDS = 10.0

# What Ray's errors say if its memory monitor has killed processes.
LOW_MEMORY = "the node running low on memory"

# What they say if other workers have waited too long for one.
HUNG = "collective operation timed out"

# The number of times that failed workers are replaced, apart from those on preempted nodes.
MAX_RESTARTS = 3

# Options of DistributedDataParallel. There are no unused parameters, but searching for them keeps
# the gradients in place in DDP's buffers. Otherwise DDP rearranges them after the first step, also
# after the first step of a resumed training, and the sum of three or more numbers depends on the
# order of addition.
DATA_PARALLEL = {
    "forward_sync_buffers": False,  # frozen word vectors, equal everywhere
    "find_unused_parameters": True,
}


# The largest hidden size with which cuDNN keeps the recurrent weights on the chip, forward and
# backward (`use_rnn_persist_small_h` in PyTorch's RNN.cpp).
LARGEST_PERSISTENT = 128

SLOW_PRECISION = (
    "this CPU has no instructions for bfloat16, which is several times slower than float32 here. "
    "Set precision to float32."
)


def kept_threads(asked: int) -> str:
    """What a message about a resumed training adds if it keeps another number of threads than the
    one asked for."""
    kept = torch.get_num_threads()
    return "" if kept == asked else f", with {kept} thread(s) per worker as before, not {asked}"


def is_slow(precision: str, device: torch.device) -> bool:
    """Whether a CPU without instructions for bfloat16 would compute in it."""
    if precision != "bfloat16" or device.type != "cpu":
        return False
    with_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return with_onednn and not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def slow_size(hidden_size: int, device: torch.device) -> str | None:
    """What to say about a GPU that can't use cuDNN's fastest recurrent kernels; None if it can."""
    if device.type != "cuda" or hidden_size <= LARGEST_PERSISTENT:
        return None
    return (
        f"hidden_size {hidden_size} is above {LARGEST_PERSISTENT}, the largest for which cuDNN has "
        "its fast recurrent kernels. A GPU needs much longer for each step."
    )


def local_checkpoint(checkpoint: Checkpoint, name: str, storage: Store) -> Path:
    """The folder of a checkpoint of the run `name`, or of a copy of it on this machine."""
    if storage.is_local:
        return Path(checkpoint.path)
    copy = settings().root.resolve() / "ray" / name / Path(checkpoint.path).name
    return Path(checkpoint.to_directory(copy))


def run_workers(
    title: str,
    worker: Callable[[dict[str, Any]], str | None],
    job: Any,
    allotment: Allotment,
    run_config: RunConfig,
) -> Any:
    """Run `worker` on each of Ray Train's workers, and show the progress under `title`.

    Each gets a dictionary with the `job`, the `allotment`, `send`, which sends a report to this
    process, and `checkpoint_minutes` of its settings. The job is a dataclass, whose paths other
    nodes fetch. Returns Ray Train's result.

    Raises:
        UserError: a worker returned an error message, Ray Train's controller died, or Ray ended the
            training because a machine had no memory left.
    """
    fault = _fault_of(run_config)
    fault.remove()
    try:
        with (
            ProgressReporter(title) as reporter,
            receiving(_Receiver(title, reporter).show) as send,
            process_group(allotment) as torch_config,
        ):
            reporter.log(f"{title}: starting {allotment}.")
            result = TorchTrainer(
                _work,
                train_loop_config={
                    "worker": worker,
                    "fault": fault,
                    "job": portable(job),
                    "allotment": allotment,
                    "send": send,
                    # A setting, not a parameter: a rerun with another value resumes.
                    "checkpoint_minutes": settings().checkpoint_minutes,
                },
                torch_config=torch_config,
                scaling_config=ScalingConfig(
                    num_workers=allotment.workers,
                    use_gpu=allotment.gpus_per_worker > 0,
                    resources_per_worker={
                        "CPU": allotment.cpus_per_worker,
                        "GPU": allotment.gpus_per_worker,
                    },
                ),
                run_config=replace(run_config, callbacks=[_FailureReports(title, send)]),
            ).fit()
    except WorkerGroupError as error:
        raise _user_error(error) or error from None
    except ControllerError as error:
        raise out_of_memory(error) or error from None
    except RayActorError as error:
        raise UserError(
            "The Ray Train controller died (out of memory, or killed). Rerun the flow to resume "
            "the training from its last checkpoint."
        ) from error
    if message := fault.read():
        fault.remove()
        raise UserError(f"{message} The same command resumes from the last checkpoint.")
    if result.return_value is not None:
        # A diverged training can't be resumed.
        files = run_config.storage_filesystem
        files.delete_dir(f"{run_config.storage_path}/{run_config.name}")
        raise UserError(result.return_value)
    return result


@dataclass(frozen=True)
class _Fault:
    """The file that says why another attempt would fail, too: workers that replace those that wrote
    it return at once. It is beside the training's checkpoints, which stay."""

    store: Store
    name: str

    def read(self) -> str | None:
        """The fault and its remedy; None without a fault."""
        content = self.store.read(self.name)
        return None if content is None else content.decode()

    def write(self, message: str) -> None:
        """Write it, unless the disk is full."""
        with suppress(OSError):
            self.store.write(self.name, message.encode())

    def remove(self) -> None:
        """Remove the file, if there is one."""
        self.store.remove(self.name)


def _fault_of(run_config: RunConfig) -> _Fault:
    store = Store(run_config.storage_filesystem, run_config.storage_path, is_local=False)
    return _Fault(store, f"{run_config.name}.fault")


def _work(config: dict[str, Any]) -> str | None:
    """Run a worker, unless those before it have failed by a fault that would recur."""
    worker, fault = config["worker"], config["fault"]
    # Ray logs a line about each checkpoint, whatever the log level of the run.
    logging.disable(logging.INFO)
    if fault.read():
        return None
    try:
        _require_gpu(config["allotment"])
        message: str | None = worker(config)
    except Exception as error:
        found = error if isinstance(error, UserError) else fault_of_machine(error)
        if found and not isinstance(found, RetryableError):
            fault.write(str(found))
        raise
    return message


def _require_gpu(allotment: Allotment) -> None:
    """Raises UserError if a GPU was allotted, but torch finds none: training would go on on the
    CPU, and take many times as long."""
    if allotment.gpus_per_worker and not torch.cuda.is_available():
        raise UserError(
            f"torch no longer finds the GPU of a worker on {socket.gethostname()}: the GPU or its "
            "driver has failed. Check it there by nvidia-smi, and repair it or restart the machine."
        )


class _FailureReports(UserCallback):  # type: ignore[misc]
    """Reports to the driver why workers failed, from Ray Train's controller."""

    def __init__(self, title: str, send: Callable[[object], None]) -> None:
        self.title, self.send = title, send

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """Called each time that workers have failed."""
        reason = _reason(list(map(_cause, worker_exceptions.values())))
        self.send(f"{self.title}: {reason}. New workers continue from the last checkpoint.")


def _reason(causes: list[Exception]) -> str:
    """The cause of the failure of workers, in words."""
    deaths = [cause for cause in causes if isinstance(cause, RayActorError)]
    if deaths:
        preempted = any(death.preempted for death in deaths)
        return "a node was preempted" if preempted else "a worker died"
    if any(HUNG in str(cause) for cause in causes):
        return "a worker hung"
    message = first_line(causes[0])
    if "CUDA error" in message:
        return f"the GPU of a worker failed ({message})"
    if "Connection closed" in message:
        return "a worker lost its connection to another one"
    return f"a worker failed ({message})"


def _user_error(error: WorkerGroupError) -> UserError | None:
    """The UserError that a worker raised, if one did."""
    causes = map(_cause, error.worker_failures.values())
    return next((cause for cause in causes if isinstance(cause, UserError)), None)


def out_of_memory(error: ControllerError) -> UserError | None:
    """What to say if Ray ended the training's processes because memory was short; None if not."""
    if LOW_MEMORY not in str(error):
        return None
    return UserError(
        "A machine ran out of memory, so Ray ended the training's processes. Rerun the flow to "
        "resume the training from its last checkpoint."
    )


def _cause(failure: Exception) -> Exception:
    """The error inside of Ray Train's error about a worker that does not answer."""
    cause: Exception = getattr(failure, "health_check_failure", failure)
    return cause


class _Receiver:
    """Shows what the workers report, and says if a node has died meanwhile."""

    def __init__(self, title: str, reporter: ProgressReporter) -> None:
        self.title, self.reporter, self.nodes = title, reporter, nodes()

    def show(self, report: object) -> None:
        """Show a report as a line or as progress."""
        before, self.nodes = self.nodes, nodes()
        if before - self.nodes:  # Ray notices a node's death later than the workers on others
            self.reporter.log(f"{self.title}: a node of the cluster died.")
        if isinstance(report, Progress):
            self.reporter.show(report)
        else:
            self.reporter.log(str(report))


def resumable(name: str, storage: Store, **ranking: Any) -> RunConfig:
    """The configuration of a run that resumes from its checkpoints in `storage`.

    `ranking` says which checkpoints are kept, besides the last one.
    """
    return RunConfig(
        name=name,
        storage_path=storage.folder,
        storage_filesystem=storage.files,
        # A node that its provider announces to take back is not a failure.
        failure_config=FailureConfig(max_failures=MAX_RESTARTS, max_preemption_failures=-1),
        checkpoint_config=CheckpointConfig(num_to_keep=settings().keep_checkpoints, **ranking),
        # On a busy machine, it warns with tracebacks of what it then does again.
        logging_config=LoggingConfig(log_level="ERROR"),
    )


@contextmanager
def process_group(allotment: Allotment) -> Iterator[TorchConfig]:
    """Yield the configuration of the process group of a training within the block.

    Ray's own sets up a TCP store, which listens on all interfaces. A cluster that was started here
    needs none: its workers find each other through a file.
    """
    if is_remote():
        yield TorchConfig()
    else:
        with TemporaryDirectory(prefix="bidaflow-") as folder:
            yield _FileConfig("nccl" if allotment.gpus_per_worker else "gloo", folder=folder)


class _FileBackend(TorchConfig().backend_cls):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: "_FileConfig") -> None:
        backend, size = backend_config.backend, len(worker_group)
        if backend == "nccl" and not all(worker_group.execute(torch.cuda.is_available)):
            return  # the workers say so
        # A file serves one group of workers; those that replace them need another one.
        url = f"file://{backend_config.folder}/{uuid4()}"
        timeout = timedelta(seconds=backend_config.timeout_s)
        join = torch.distributed.init_process_group
        setups = [
            worker_group.execute_single_async(rank, join, backend, url, timeout, size, rank)
            for rank in range(size)
        ]
        ray.get(setups)


@dataclass
class _FileConfig(TorchConfig):  # type: ignore[misc]
    folder: str = ""

    @property
    def backend_cls(self) -> type[_FileBackend]:
        return _FileBackend


def distributed(model: nn.Module) -> nn.Module:
    """The model on this worker's device; its gradients are averaged over all workers."""
    prepared: nn.Module = prepare_model(model, parallel_strategy_kwargs=DATA_PARALLEL)
    return prepared


def all_reduce(tensor: torch.Tensor) -> None:
    """Sum a tensor over all workers in place; with one worker, leave it as it is."""
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(tensor)


class CheckpointSchedule:
    """Decides when a checkpoint between evaluations is due. All workers pass the same numbers, so
    that they agree."""

    def __init__(self, minutes: float) -> None:
        self.seconds = 60 * (minutes or math.inf)
        self.last_seconds: float | None = None  # set by the first call: workers' clocks differ

    def is_due(self, seconds: float) -> bool:
        if self.last_seconds is None:
            self.last_seconds = seconds
        due = seconds - self.last_seconds >= self.seconds
        if due:
            self.last_seconds = seconds
        return due
