"""File locks between processes and threads, shared or exclusive, and leases between machines.

The kernel holds the locks (flock), so those of a killed process are released at once. The holder of
an exclusive lock removes the lock file. portalocker then makes those who waited for it lock the new
file. filelock's ReadWriteLock fails if the file is removed, and fasteners' lock does not exclude
threads of the same process.

Runs on several machines hold leases of Prefect's server, one after the other.
"""

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portalocker import AlreadyLocked, Lock, LockFlags, TemporaryFileLock

from infra.environment import TEMPORARY_SERVER
from infra.run_logger import logger
from infra.settings import settings

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

# Prefect is imported locally, because it takes a second to load.

POLL_SECONDS = 0.1

# A lease is renewed while its holder lives; of a killed holder it ends after this many seconds.
LEASE_SECONDS = 60


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


@contextmanager
def lease(name: str, strict: bool = False) -> Iterator[None]:
    """Hold the lease of a name within the block, after waiting for another holder.

    Does nothing where file locks suffice: if the storage root is a folder, or if no other machine
    uses the Prefect server, because it is temporary. The lease saves work: without it, or after it
    was lost, two runs may build the same stage, and both get the files that were published first.

    With `strict`, the block runs only with the lease, and is interrupted if that is lost. The
    lease's concurrency limit then stays on the server: removing it could let in two who wait.
    """
    if settings().address is None:
        yield
        return
    from prefect.client.orchestration import get_client
    from prefect.concurrency.sync import concurrency
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.settings import PREFECT_API_URL

    # A temporary server never ends leases of killed runs.
    if PREFECT_API_URL.value() in (None, os.environ.get(TEMPORARY_SERVER)):
        yield
        return
    limit = f"bidaflow-{name}"
    with get_client(sync_client=True) as client, ExitStack() as released:
        with suppress(ObjectAlreadyExists):  # another run creates it at the same time
            client.upsert_global_concurrency_limit_by_name(limit, 1)
        with concurrency(limit, lease_duration=LEASE_SECONDS, strict=strict):
            if not strict:
                released.callback(_remove, client, limit)
            yield


def _remove(client: "SyncPrefectClient", limit: str) -> None:
    from prefect.exceptions import ObjectNotFound

    with suppress(ObjectNotFound):  # removed by another run that waited for it
        client.delete_global_concurrency_limit_by_name(limit)
