"""Locks between real processes: who waits for whom, and that killed processes hold no lock."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from infra.artifacts.locks import POLL_SECONDS, exclusive_lock, lock_if_free, shared_lock
from infra.settings import CHECKOUT
from tests.factories.logs import watched_log

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
