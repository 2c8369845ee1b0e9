"""Processes that outlive a command, identified (and stopped) by their id and creation time."""

import time
from collections.abc import Sequence
from contextlib import suppress

import psutil
from pydantic import BaseModel


class ProcessRecord(BaseModel, frozen=True):
    """A process of this machine; the creation time rules out a later process with the same id."""

    pid: int
    created: float  # seconds since the epoch

    def process(self) -> psutil.Process | None:
        """The process, or None if it has ended."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < 1
        except psutil.NoSuchProcess:
            return None
        return process if same and _is_running(process) else None

    @property
    def alive(self) -> bool:
        """Whether the process is still running."""
        return self.process() is not None


def record_process(pid: int) -> ProcessRecord:
    """The record of a running process."""
    return ProcessRecord(pid=pid, created=psutil.Process(pid).create_time())


def stop(record: ProcessRecord, patience: float = 15) -> None:
    """End a process, then all its descendants; each is killed if it outlives `patience` seconds."""
    process = record.process()
    if process is None:
        return
    descendants = process.children(recursive=True)
    end([process], patience)
    end(descendants, patience)


def end(processes: Sequence[psutil.Process], patience: float) -> None:
    """Send SIGTERM to all, and SIGKILL to those still running after `patience` seconds."""
    for send in (psutil.Process.terminate, psutil.Process.kill):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                send(process)
        processes = _wait(processes, patience)


def _wait(processes: Sequence[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait at most `seconds`, and return those still running; zombies count as ended."""
    deadline = time.monotonic() + seconds
    while running := [process for process in processes if _is_running(process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return running


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
