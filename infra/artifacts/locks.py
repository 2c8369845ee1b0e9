"""File locks between processes and threads, shared or exclusive.

The kernel holds the locks (flock), so those of a killed process are released at once. The holder of
an exclusive lock may remove the lock file.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

POLL_SECONDS = 0.1


@contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    """Hold a shared lock, after waiting for an exclusive holder to release it."""
    with _wait_for(path, fcntl.LOCK_SH, lambda: None):
        yield


@contextmanager
def exclusive_lock(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock, after waiting for other holders; `on_wait` is called once if any."""
    with _wait_for(path, fcntl.LOCK_EX, on_wait):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def lock_if_free(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock within the block if it is free; yields whether it was."""
    file = _try_lock(path, fcntl.LOCK_EX)
    if file is None:
        yield False
        return
    with file:
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)


def _wait_for(path: Path, kind: int, on_wait: Callable[[], None]) -> IO[bytes]:
    file = _try_lock(path, kind)
    if file is None:
        on_wait()
    while file is None:
        time.sleep(POLL_SECONDS)
        file = _try_lock(path, kind)
    return file


def _try_lock(path: Path, kind: int) -> IO[bytes] | None:
    """The lock file, locked until it is closed; None if others hold the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("ab")
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
        if _is_current(file, path):
            return file
    except BlockingIOError:
        pass
    file.close()
    return None


def _is_current(file: IO[bytes], path: Path) -> bool:
    """Whether `path` still names this file: its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
