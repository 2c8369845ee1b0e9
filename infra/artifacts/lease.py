"""Leases of Prefect's server, with which runs on several machines build a stage only once."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from prefect.client.orchestration import get_client
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound

from infra.settings import settings

# A lease is renewed while its holder lives; of a killed holder it ends after this many seconds.
LEASE_SECONDS = 60


@contextmanager
def lease(name: str) -> Iterator[None]:
    """Hold the lease of a name within the block, after waiting for another holder.

    Does nothing if the storage root is a folder, whose file locks suffice. The lease saves work:
    without it, or after it was lost, two runs may build the same stage, and both get the files that
    were published first.
    """
    if settings().address is None:
        yield
        return
    limit = f"bidaflow-{name}"
    with get_client(sync_client=True) as client:
        client.upsert_global_concurrency_limit_by_name(limit, 1)
        with concurrency(limit, lease_duration=LEASE_SECONDS):
            yield
        with suppress(ObjectNotFound):  # removed by another run that waited for it
            client.delete_global_concurrency_limit_by_name(limit)
