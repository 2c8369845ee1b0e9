"""Processes that outlive a command: recorded by id and time of birth, and stopped by them alone."""

import time
from collections.abc import Sequence

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
        except psutil.NoSuchProcess:
            return None
        return found if same and _runs(found) else None

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


def end(processes: Sequence[psutil.Process], patience: float) -> None:
    """Send SIGTERM to all, and SIGKILL to those that still run after `patience` seconds."""
    _send("terminate", processes)
    left = _wait(processes, patience)
    _send("kill", left)
    _wait(left, patience)


def _wait(processes: Sequence[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that still run after that time at most; one that nobody has waited for has ended."""
    end_of_wait = time.monotonic() + seconds
    while running := [process for process in processes if _runs(process)]:
        if time.monotonic() > end_of_wait:
            break
        time.sleep(0.1)
    return running


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _send(signal: str, processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        try:
            getattr(process, signal)()
        except psutil.NoSuchProcess:
            continue
