"""Stopping processes by their records."""

import os
import signal
import subprocess
import sys
import time

import pytest

from infra import processes

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


def test_stop_ignores_a_reused_process_id() -> None:
    child = start("import time; print(flush=True); time.sleep(60)")
    earlier = processes.ProcessRecord(pid=child.pid, created=time.time() - 3600)
    assert not earlier.alive
    processes.stop(earlier)
    assert child.poll() is None
    child.kill()
    child.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="the start is known by the clock only")
def test_process_is_known_after_the_clock_was_set() -> None:
    record = processes.record_process(os.getpid())
    assert record.model_copy(update={"created": record.created - 3600}).alive
    boot, _, ticks = record.started.partition(" ")
    assert not record.model_copy(update={"started": f"{boot} {int(ticks) - 1}"}).alive
    assert not record.model_copy(update={"started": f"another-boot {ticks}"}).alive


def test_records_of_earlier_releases_are_read() -> None:
    record = processes.record_process(os.getpid()).model_dump(exclude={"started"})
    assert processes.ProcessRecord.model_validate(record).alive
    record["created"] -= 3600
    assert not processes.ProcessRecord.model_validate(record).alive
