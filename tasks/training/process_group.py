"""Sets up the process group of a training; on this machine, it listens on loopback only."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import ray
from ray.train.torch import TorchConfig
from ray.train.torch.config import (
    _set_torch_distributed_env_vars,
    _setup_torch_process_group,
    _TorchBackend,
)

from infra.ray_cluster import Allotment, is_remote


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


class _FileBackend(_TorchBackend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: "_FileConfig") -> None:
        worker_group.execute(_set_torch_distributed_env_vars)
        # A file serves one group of workers; those that replace them need another one.
        url = f"file://{backend_config.folder}/{uuid4()}"
        size = len(worker_group)
        setups = [
            worker_group.execute_single_async(
                rank, _setup_torch_process_group, backend_config.backend, rank, size, url
            )
            for rank in range(size)
        ]
        ray.get(setups)


@dataclass
class _FileConfig(TorchConfig):  # type: ignore[misc]
    folder: str = ""

    @property
    def backend_cls(self) -> type[_FileBackend]:
        return _FileBackend
