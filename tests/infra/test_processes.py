"""Stopping processes by their records."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra import environment, processes
from infra.services import supervisor

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); "


def start(code: str) -> subprocess.Popen[bytes]:
    """A Python process that has printed its first line."""
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.readline()
    return started


@pytest.mark.parametrize(
    ("code", "patience", "ended_by"),
    [
        ("import time; print(flush=True); time.sleep(60)", 60, signal.SIGTERM),
        (STUBBORN + "time.sleep(60)", 2, signal.SIGKILL),
    ],
)
def test_stop_does_not_wait_for_zombie_processes(
    code: str, patience: float, ended_by: signal.Signals
) -> None:
    """The child stays a zombie until this test waits for it, which it does only at the end."""
    child = start(code)
    record = processes.record_process(child.pid)
    began = time.monotonic()
    processes.stop(record, patience)
    assert time.monotonic() - began < 30
    assert not record.alive
    assert child.wait() == -ended_by


def test_stop_ends_what_a_killed_service_left() -> None:
    """The server of `mlflow server` is a child of that command."""
    code = (
        "import subprocess; child = subprocess.Popen(['sleep', '600']); "
        "print(child.pid, flush=True); child.wait()"
    )
    service = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    )
    assert service.stdout is not None
    child = psutil.Process(int(service.stdout.readline()))
    record = processes.record_process(service.pid)
    service.kill()
    service.wait()
    assert child.is_running()
    processes.stop(record)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_stop_ignores_a_reused_process_id() -> None:
    child = start("import time; print(flush=True); time.sleep(60)")
    record = processes.record_process(child.pid)
    earlier = record.model_copy(update={"started": record.started - 1})
    assert not earlier.alive
    processes.stop(earlier)
    assert child.poll() is None
    child.kill()
    child.wait()


def test_process_is_known_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    record, boot = processes.record_process(os.getpid()), psutil.boot_time()
    later = psutil.Process().create_time() + 3600
    monkeypatch.setattr(psutil, "boot_time", lambda: boot + 3600)
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: later)
    assert record.alive


@pytest.fixture
def service(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running process, which is recorded as the root's `bidaflow up`."""
    child = start("import time; print(flush=True); time.sleep(60)")
    record = processes.record_process(child.pid)
    processes.ServicesRecord(
        supervisor=record,
        services={"worker": record},
        prefect_url="http://127.0.0.1:4300",
        mlflow_url="http://127.0.0.1:5300",
    ).write()
    yield child
    child.kill()
    child.wait()


def test_copied_root_leaves_the_originals_services(
    root: Path,
    service: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(root, root.with_name("copy"))
    monkeypatch.setenv("BIDAFLOW_ROOT", str(root.with_name("copy")))
    supervisor.down()
    assert capsys.readouterr().out == "Nothing is running.\n"
    assert service.poll() is None
    assert "PREFECT_API_URL" not in environment.variables(), "runs would use the original's server"
    monkeypatch.setenv("BIDAFLOW_ROOT", str(root))
    assert environment.variables()["PREFECT_API_URL"] == "http://127.0.0.1:4300/api"
    supervisor.down()
    assert service.poll() == -signal.SIGTERM


def test_moved_root_stops_its_services(
    root: Path, service: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = root.with_name("link")
    root.rename(root.with_name("moved"))
    link.symlink_to(root.with_name("moved"))
    monkeypatch.setenv("BIDAFLOW_ROOT", str(link))
    supervisor.down()
    assert service.poll() == -signal.SIGTERM
