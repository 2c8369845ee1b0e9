"""Leases of Prefect's server, which runs on several machines hold one after the other."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_API_URL

from infra.environment import TEMPORARY_SERVER
from infra.settings import settings

# A lease is renewed while its holder lives; of a killed holder it ends after this many seconds.
LEASE_SECONDS = 60


@contextmanager
def lease(name: str, strict: bool = False) -> Iterator[None]:
    """Hold the lease of a name within the block, after waiting for another holder.

    Does nothing where file locks suffice: if the storage root is a folder, or if no other machine
    uses the Prefect server, because it is temporary. The lease saves work: without it, or after it
    was lost, two runs may build the same stage, and both get the files that were published first.

    With `strict`, the block runs only with the lease, and is interrupted if that is lost. The
    lease's concurrency limit then stays on the server: removing it could let in two who wait.
    """
    if settings().address is None or _server_is_temporary():
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


def _server_is_temporary() -> bool:
    """Whether the server ends with this process. Such a server never ends leases of killed runs."""
    api = PREFECT_API_URL.value()
    return api is None or api == os.environ.get(TEMPORARY_SERVER)


def _remove(client: SyncPrefectClient, limit: str) -> None:
    with suppress(ObjectNotFound):  # removed by another run that waited for it
        client.delete_global_concurrency_limit_by_name(limit)
