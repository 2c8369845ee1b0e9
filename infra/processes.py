"""Processes that outlive a command: recorded by id and time of birth, and stopped by them alone."""

from collections.abc import Iterable

import psutil
from pydantic import BaseModel


class Recorded(BaseModel, frozen=True):
    """A process of this machine; the time tells it from a later one that got the same id."""

    pid: int
    created: float  # seconds since the epoch

    def process(self) -> psutil.Process | None:
        """The process, unless it has ended."""
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.created) < 1
            return found if same and found.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self.process() is not None


def record(pid: int) -> Recorded:
    """The record of a running process."""
    return Recorded(pid=pid, created=psutil.Process(pid).create_time())


def stop(recorded: Recorded, patience: float = 15) -> None:
    """End a process and all that it has started: asked first, killed after `patience` seconds."""
    process = recorded.process()
    if process is None:
        return
    below = process.children(recursive=True)
    end([process], patience)
    end(below, patience)


def end(processes: Iterable[psutil.Process], patience: float) -> None:
    """Send SIGTERM to all, and SIGKILL to those that are still there after `patience` seconds."""
    _send("terminate", processes)
    _, alive = psutil.wait_procs(processes, timeout=patience)
    _send("kill", alive)
    psutil.wait_procs(alive, timeout=patience)


def _send(signal: str, processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        try:
            getattr(process, signal)()
        except psutil.NoSuchProcess:
            continue
