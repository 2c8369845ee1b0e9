"""The processes of Ray clusters that the tests started."""

from collections.abc import Iterable

import psutil


def processes_of_ray(name: str) -> list[psutil.Process]:
    """The processes of this process's cluster with this name in their command line."""
    return titled(psutil.Process().children(recursive=True), name)


def titled(processes: Iterable[psutil.Process], name: str) -> list[psutil.Process]:
    """The running processes with this name in their command line."""
    return [process for process in processes if name in _title(process)]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
