"""Leases of Prefect's server: runs that need the same stage wait for each other, also if the server
is restarted meanwhile."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from infra.artifacts.lease import LEASE_SECONDS, lease
from infra.environment import TEMPORARY_SERVER
from infra.services import supervisor
from infra.settings import settings
from tests.factories.ports import free_port

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server", "store")]


def limits() -> list[str]:
    """The limits of stages; those of promotions stay on the server, also from other tests."""
    with get_client(sync_client=True) as client:
        names = [limit.name for limit in client.read_global_concurrency_limits()]
    return [name for name in names if not name.startswith("bidaflow-promotion")]


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


def test_temporary_server_grants_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEMPORARY_SERVER, PREFECT_API_URL.value() or "")
    with lease("write-key"):
        assert "bidaflow-write-key" not in limits()


@contextmanager
def killed_server() -> Iterator[None]:
    """The server of `up` for the block, killed at the end."""
    server, *_ = supervisor.services()
    server.start()
    try:
        server.wait()
        yield
    finally:
        server.process.kill()
        server.process.wait()


@pytest.mark.full
def test_leases_outlive_a_killed_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("BIDAFLOW_PREFECT_PORT", str(free_port()))
    monkeypatch.setenv("PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS", "1")
    api = {PREFECT_API_URL: f"{settings().prefect_url}/api"}
    name = "outliving"  # Prefect keeps asking the server that it first asked about a name
    with temporary_settings(api), get_client(sync_client=True) as client:
        with killed_server():
            client.upsert_global_concurrency_limit_by_name(f"bidaflow-{name}", 1)
            outlasting_a_slow_restart = 3600
            held = client.increment_concurrency_slots_with_lease(
                [f"bidaflow-{name}"], 1, "concurrency", outlasting_a_slow_restart
            ).json()["lease_id"]
        with killed_server():
            renewed = time.monotonic()
            client.renew_concurrency_lease(held, LEASE_SECONDS)  # a run that lives
        with killed_server(), lease(name, strict=True):
            # The run was killed, so its lease ends by itself, and not before.
            assert time.monotonic() - renewed > LEASE_SECONDS - 1
