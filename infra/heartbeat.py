"""Says what a run is doing when it has logged nothing for a while."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from infra.run_logger import logger

# Time without a line after which one says what is under way. Workers report every ten seconds.
QUIET_SECONDS = 12.0

_last_sign = time.monotonic()
_steps: dict[object, tuple[str, float]] = {}  # those under way: title and start


def sign_of_life(record: logging.LogRecord | None = None) -> bool:
    """Note that the run has just shown something; as a filter of a logger, keep every record."""
    global _last_sign
    _last_sign = time.monotonic()
    return True


for runs in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(runs).addFilter(sign_of_life)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Name what is under way in this block."""
    key = object()
    _steps[key] = title, time.monotonic()
    try:
        yield
    finally:
        del _steps[key]


@contextmanager
def heartbeat() -> Iterator[None]:
    """Log the steps under way, with their seconds so far, whenever the block has been quiet."""
    log = logger()  # here, as other threads lack the run
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(1):
            now = time.monotonic()
            if _steps and now - _last_sign >= QUIET_SECONDS:
                steps = (f"{title} ({now - start:.0f} s)" for title, start in list(_steps.values()))
                log.info(f"Still working: {', '.join(steps)}")

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        finished.set()
