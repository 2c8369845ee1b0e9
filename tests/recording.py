"""The record of a run of all tests: commit, minutes, counts, and the slowest tests."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from _pytest.terminal import TerminalReporter

from benchmarks.common.machine import machine, today
from infra.settings import CHECKOUT

OUTCOMES = ("passed", "failed", "error", "skipped")
SLOWEST = 30
STARTED = time.monotonic()


def record(
    file: Path, reporter: TerminalReporter, arguments: Sequence[str], exit_status: int
) -> None:
    """Write the record of a run that has just ended as JSON."""
    reports = [report for reports in reporter.stats.values() for report in reports]
    seconds: dict[str, float] = {}
    for report in reports:
        if hasattr(report, "when"):
            name = report.nodeid.partition("@")[0]
            seconds[name] = seconds.get(name, 0) + report.duration
    slowest = sorted(seconds.items(), key=lambda item: -item[1])[:SLOWEST]
    run = {
        "command": " ".join(["pytest", *map(str, arguments)]),
        "commit": commit(),
        "date": today(),
        "machine": machine(),
        "exit_status": exit_status,
        "minutes": round((time.monotonic() - STARTED) / 60, 1),
        "counts": {name: len(reporter.stats.get(name, [])) for name in OUTCOMES},
        "slowest_seconds": {name: round(value, 1) for name, value in slowest},
    }
    file.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


def commit() -> str:
    """The commit of the checkout, marked where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
