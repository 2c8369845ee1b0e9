"""The processes of the Ray cluster that the tests started."""

import psutil


def processes_of_ray(name: str) -> list[psutil.Process]:
    """The cluster's processes with this name in their command line."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if name in " ".join(_title(child))]


def _title(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
