"""Leases of Prefect's server: runs that need the same stage wait for each other."""

import threading
import time

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from infra.artifacts.lease import lease
from tests.factories.ports import free_port

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


def test_failed_block_leaves_no_limit_on_the_server() -> None:
    with pytest.raises(ZeroDivisionError), lease("write-key"):
        1 / 0  # noqa: B018
    assert limits() == []


def test_no_one_else_holds_a_strict_lease() -> None:
    holders: list[str] = []

    def hold(name: str) -> None:
        with lease("promotion", strict=True):
            holders.append(name)
            time.sleep(0.5)
            assert holders == [name], "another one has entered meanwhile"
            holders.remove(name)
            done.append(name)

    done: list[str] = []
    threads = [threading.Thread(target=hold, args=[name]) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["a", "b", "c"]


def test_no_server_no_strict_lease() -> None:
    nowhere = {PREFECT_API_URL: f"http://127.0.0.1:{free_port()}/api"}
    with (
        temporary_settings(nowhere | {PREFECT_CLIENT_MAX_RETRIES: 0}),
        pytest.raises((httpx.TransportError, RuntimeError)),
        lease("promotion", strict=True),
    ):
        pytest.fail("the block runs without a lease")
