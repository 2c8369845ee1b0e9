"""Locks between real processes, and leases between machines: who waits for whom, and that killed
processes hold none."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from infra.artifacts.locks import (
    LEASE_SECONDS,
    POLL_SECONDS,
    exclusive_lock,
    lease,
    lock_if_free,
    shared_lock,
)
from infra.environment import TEMPORARY_SERVER
from infra.services import supervisor
from infra.settings import CHECKOUT, settings
from tests.factories.logs import watched_log
from tests.factories.ports import free_port

HOLD = """
import sys
from pathlib import Path
from infra.artifacts.locks import exclusive_lock, shared_lock

path = Path(sys.argv[2])
lock = shared_lock(path) if sys.argv[1] == "shared" else exclusive_lock(path, "Waiting.")
with lock:
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(kind: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until the block ends or the process is killed."""
    command = [sys.executable, "-c", HOLD, kind, str(path)]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def is_free(path: Path) -> bool:
    with lock_if_free(path) as free:
        return free


def test_shared_lock_is_one_that_nfs_gives(tmp_path: Path) -> None:
    """NFSv4 refuses shared locks on files that are open for writing only."""
    with shared_lock(tmp_path / "a.lock") as file:
        assert file.readable() and file.writable()


def test_shared_locks_end_independently(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with held_elsewhere("shared", path):
        with shared_lock(path):
            pass
        assert not is_free(path)
    with shared_lock(path):
        with shared_lock(path):
            pass
        assert not is_free(path)


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with ThreadPoolExecutor(1) as thread:
        with shared_lock(path):
            assert not thread.submit(is_free, path).result()
        with exclusive_lock(path, "Waiting."):
            assert not thread.submit(is_free, path).result()
        assert thread.submit(is_free, path).result()


def test_waiting_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, holding = tmp_path / "a.lock", ExitStack()

    def release() -> None:
        waiting.wait(600)
        time.sleep(3 * POLL_SECONDS)
        holding.close()

    holding.enter_context(shared_lock(path))
    with watched_log("Waiting.") as waiting, ThreadPoolExecutor(1) as thread:
        thread.submit(release)
        with exclusive_lock(path, "Waiting."):
            assert waiting.is_set()
            assert caplog.messages == ["Waiting."]


def test_shared_waiter_locks_the_new_file(tmp_path: Path) -> None:
    """The exclusive holder removes the file that the waiter has open."""
    path = tmp_path / "a.lock"
    with ThreadPoolExecutor(1) as thread, ExitStack() as waiter:
        with exclusive_lock(path, "Waiting."):
            waiting = thread.submit(waiter.enter_context, shared_lock(path))
            time.sleep(3 * POLL_SECONDS)
            assert not waiting.done()
        waiting.result()
        assert not is_free(path)
    assert is_free(path)


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_killed_holder_releases_its_lock(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.lock"
    with held_elsewhere(kind, path) as holder:
        assert not is_free(path)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        with exclusive_lock(path, "Waiting."):
            assert caplog.messages == []


def test_exclusive_lock_survives_removal_of_its_file(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "a.lock", [], []

    def enter(number: int) -> None:
        for _ in range(50):
            with exclusive_lock(path, "Waiting."):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(enter, range(4)))
    assert most == [1] * 200
    assert not path.exists()


def leases(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs Prefect's server."""
    return pytest.mark.heavy(pytest.mark.usefixtures("prefect_server", "store")(test))


def limits() -> list[str]:
    """The limits of stages; those of promotions stay on the server, also from other tests."""
    with get_client(sync_client=True) as client:
        names = [limit.name for limit in client.read_global_concurrency_limits()]
    return [name for name in names if not name.startswith("bidaflow-promotion")]


@leases
def test_second_holder_waits_for_the_first() -> None:
    order, entered, leaving = [], threading.Event(), threading.Event()

    def hold() -> None:
        with lease("write-key"):
            entered.set()
            leaving.wait(60)
            time.sleep(0.3)
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
    with pytest.raises(ZeroDivisionError), lease("write-key"):
        1 / 0  # noqa: B018
    assert limits() == []


@leases
def test_no_one_else_holds_a_strict_lease() -> None:
    holders: list[str] = []

    def hold(name: str) -> None:
        with lease("promotion", strict=True):
            holders.append(name)
            time.sleep(0.2)
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


@leases
def test_no_server_no_strict_lease() -> None:
    nowhere = {PREFECT_API_URL: f"http://127.0.0.1:{free_port()}/api"}
    with (
        temporary_settings(nowhere | {PREFECT_CLIENT_MAX_RETRIES: 0}),
        pytest.raises((httpx.TransportError, RuntimeError)),
        lease("promotion", strict=True),
    ):
        pytest.fail("the block runs without a lease")


@leases
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


@leases
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
