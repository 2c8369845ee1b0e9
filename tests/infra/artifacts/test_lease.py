"""Leases of Prefect's server: runs that need the same stage wait for each other."""

import threading
import time

import pytest
from prefect.client.orchestration import get_client

from infra.artifacts.lease import lease

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server", "store")]


def limits() -> list[str]:
    with get_client(sync_client=True) as client:
        return [limit.name for limit in client.read_global_concurrency_limits()]


def test_second_holder_waits_for_the_first() -> None:
    order, entered, leaving = [], threading.Event(), threading.Event()

    def hold() -> None:
        with lease("write-key"):
            entered.set()
            leaving.wait(60)
            time.sleep(1)
            order.append("first")

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(60)
    assert limits() == ["bidaflow-write-key"]
    with lease("write-other"):
        order.append("other")
    leaving.set()
    with lease("write-key"):
        order.append("second")
    thread.join()
    assert order == ["other", "first", "second"]
    assert limits() == []
