"""Locks between real processes: who waits for whom, and that killed processes hold no lock."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from infra.artifacts.locks import exclusive_lock, lock_if_free, shared_lock
from infra.settings import CHECKOUT

HOLD = """
import sys
from pathlib import Path
from infra.artifacts.locks import exclusive_lock, shared_lock

path = Path(sys.argv[2])
lock = shared_lock(path) if sys.argv[1] == "shared" else exclusive_lock(path, lambda: None)
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


def test_shared_lock_blocks_exclusive_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with held_elsewhere("shared", path), shared_lock(path):
        assert not is_free(path)
    assert is_free(path)


def test_killed_holder_releases_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with held_elsewhere("exclusive", path) as holder:
        assert not is_free(path)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        waited: list[str] = []
        with exclusive_lock(path, lambda: waited.append("waited")):
            assert waited == []


def test_exclusive_lock_survives_removal_of_its_file(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "a.lock", [], []

    def enter(number: int) -> None:
        for _ in range(50):
            with exclusive_lock(path, lambda: None):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(enter, range(4)))
    assert most == [1] * 200
    assert not path.exists()
