"""Processes that outlive a command, such as the services, which are recorded under the root.

They are identified, and stopped, by their id and the time of their start. The records in a copy of
a root name processes of the original, which commands in the copy leave alone.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from pydantic import BaseModel, Field

from infra.atomic_files import write_atomically
from infra.settings import settings


def root_of_processes() -> str:
    """The root as the records of processes name it."""
    return str(settings().root.resolve())


def belongs_to_root(recorded: str) -> bool:
    """Whether what names this folder as its root belongs to the current one.

    If the folder is gone, the root was moved to its current place. If it exists beside the current
    one, the latter is a copy.
    """
    try:
        # Containers and mounts can show the same folder under several paths.
        return settings().root.samefile(recorded)
    except PermissionError:
        return False
    except (FileNotFoundError, NotADirectoryError):
        return True


class ProcessRecord(BaseModel, frozen=True):
    """A process of this machine; the time of its start rules out a later process with its id."""

    pid: int
    created: float  # seconds since the epoch
    started: float = 0.0  # seconds since the boot: they do not change with the clock
    root: str = Field(default_factory=root_of_processes)

    @property
    def is_of_root(self) -> bool:
        """Whether the process belongs to the current root, not to the one it was copied from."""
        return belongs_to_root(self.root)

    def process(self) -> psutil.Process | None:
        """The process, or None if it has ended, or belongs to another root."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            same = abs(_seconds_since_boot(process) - self.started) < 0.1
            if same and self.is_of_root and _is_running(process):
                return process
        return None

    @property
    def alive(self) -> bool:
        """Whether the process is still running."""
        return self.process() is not None


def record_process(pid: int) -> ProcessRecord:
    """The record of a running process."""
    process = psutil.Process(pid)
    created, started = process.create_time(), _seconds_since_boot(process)
    return ProcessRecord(pid=pid, created=created, started=started)


def _seconds_since_boot(process: psutil.Process) -> float:
    return process.create_time() - psutil.boot_time()


def stop(record: ProcessRecord, patience: float = 15) -> None:
    """End a process, then all its descendants; each is killed if it outlives `patience` seconds.

    Of a dead process that led a session, the others in that session are ended.
    """
    process = record.process()
    others = process.children(recursive=True) if process else _left_in_session(record)
    end([process] if process else [], patience)
    end(others, patience)


def _left_in_session(record: ProcessRecord) -> list[psutil.Process]:
    """The processes in the session of a dead process. As long as there are any, no other process
    gets its id."""
    left = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == record.pid and record.is_of_root:
                left.append(process)
    return [] if psutil.pid_exists(record.pid) else left


def end(processes: Sequence[psutil.Process], patience: float) -> None:
    """Send SIGTERM to all, and SIGKILL to those still running after `patience` seconds.

    After SIGKILL, wait at most as long again. Zombies count as ended.
    """
    for send in (psutil.Process.terminate, psutil.Process.kill):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                send(process)
        deadline = time.monotonic() + patience
        while processes and time.monotonic() < deadline:
            time.sleep(0.1)
            processes = [process for process in processes if _is_running(process)]


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class ServicesRecord(BaseModel):
    """The process of `bidaflow up`, its services, and the URLs of its servers."""

    supervisor: ProcessRecord
    services: dict[str, ProcessRecord]  # in start order
    prefect_url: str
    mlflow_url: str

    def write(self) -> None:
        """Write the record atomically."""
        write_atomically(_file(), self.model_dump_json(indent=1) + "\n")


def read_record() -> ServicesRecord | None:
    """The last record, whether its processes still run or were killed; None without one, or if it
    was copied with the root."""
    file = _file()
    if not file.exists():
        return None
    record = ServicesRecord.model_validate_json(file.read_bytes())
    return record if record.supervisor.is_of_root else None


def remove_record() -> None:
    """Delete the record, once nothing is running any more."""
    _file().unlink(missing_ok=True)


def _file() -> Path:
    return settings().root.resolve() / "services.json"
