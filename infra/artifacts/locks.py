"""File locks between processes and threads, shared or exclusive.

The kernel holds the locks (flock), so those of a killed process are released at once. The holder of
an exclusive lock removes the lock file. portalocker then makes those who waited for it lock the new
file. filelock's ReadWriteLock fails if the file is removed, and fasteners' lock does not exclude
threads of the same process.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from portalocker import AlreadyLocked, Lock, LockFlags, TemporaryFileLock

from infra.run_logger import logger
from infra.settings import settings

POLL_SECONDS = 0.1


class _SharedLock(TemporaryFileLock):
    """Leaves the lock file in place for other holders when it is released."""

    release = Lock.release


def lock_file(folder: Path, purpose: str) -> Path:
    """The lock file of a folder, such as that of a stage's key, locked while it is in use, being
    built or being published to."""
    return settings().root.resolve() / "locks" / f"{folder.name}.{purpose}"


def shared_lock(path: Path) -> AbstractContextManager[Any]:
    """Hold a shared lock, after waiting for an exclusive holder to release it."""
    return _lock(path, shared=True)


@contextmanager
def exclusive_lock(path: Path, wait_message: str) -> Iterator[None]:
    """Hold an exclusive lock, after waiting for other holders; if there are any, log a message."""
    with lock_if_free(path) as free:
        if free:
            yield
            return
    logger().info(wait_message)
    with _lock(path):
        yield


@contextmanager
def lock_if_free(path: Path, shared: bool = False, patience: float = 0) -> Iterator[bool]:
    """Hold a lock, exclusive by default, within the block if it is free, at the latest after so
    many seconds; yields whether it was."""
    lock = _lock(path, shared)
    with suppress(AlreadyLocked):
        lock.acquire(patience or None, fail_when_locked=not patience)
    try:
        yield lock.fh is not None
    finally:
        lock.release()


def _lock(path: Path, shared: bool = False) -> TemporaryFileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    flag = LockFlags.SHARED if shared else LockFlags.EXCLUSIVE
    lock = (_SharedLock if shared else TemporaryFileLock)(
        path,
        math.inf,
        POLL_SECONDS,
        fail_when_locked=False,
        flags=flag | LockFlags.NON_BLOCKING,  # polled
    )
    lock.mode = "a+"  # NFSv4 gives shared locks only to files that are open for reading
    return lock
