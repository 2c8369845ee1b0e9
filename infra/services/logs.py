"""The logs of `bidaflow up`'s services, under the root."""

from pathlib import Path

from infra.settings import settings

MAX_LOG_BYTES = 10 * 2**20
"""Size in bytes above which a log is rotated at the next start."""


def log_file(name: str) -> Path:
    """Path of a service's log; its folder is created if it is missing."""
    folder = settings().root.resolve() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.log"


def rotate_if_long(name: str) -> None:
    """Rotate the log if it exceeds the limit; one earlier log is kept as `<name>.log.1`."""
    log = log_file(name)
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
