"""Shows the progress of a transfer: as a bar in a terminal, otherwise as occasional log lines."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from infra.run_logger import logger

# Prefect is imported where it is used: it takes seconds to load.

LINE_SECONDS = 10.0


@contextmanager
def progress(name: str, done: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the size of each transferred block in bytes."""
    if sys.stderr.isatty():
        with _bar() as bar:
            task = bar.add_task(name, completed=done, total=total)
            yield lambda count: bar.advance(task, count)
    else:
        yield _ProgressLines(name, done, total)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        bar_column(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=log_console(),
        transient=True,
    )


def bar_column(width: int | None = 40) -> BarColumn:
    """A bar with explicit colours, because Prefect's console does not know rich's named styles."""
    return BarColumn(width, style="bright_black", complete_style="cyan", finished_style="green")


def log_console() -> Console:
    """Prefect's log console, so that log lines appear above a bar; otherwise standard error."""
    from prefect.logging.handlers import PrefectConsoleHandler

    handlers = logging.getLogger().handlers
    consoles = (h.console for h in handlers if isinstance(h, PrefectConsoleHandler))
    return next(consoles, Console(stderr=True))


class _ProgressLines:
    def __init__(self, name: str, done: int, total: int | None) -> None:
        self._name, self._start_bytes, self._done, self._total = name, done, done, total
        self._start_time = self._last_logged = time.monotonic()

    def __call__(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._last_logged >= LINE_SECONDS:
            self._last_logged = now
            logger().info(self._line(now - self._start_time))

    def _line(self, seconds: float) -> str:
        rate = (self._done - self._start_bytes) / seconds
        line = f"{self._name}: {megabytes(self._done)}"
        if self._total is None:
            return f"{line}, {megabytes(rate)}/s"
        left = int((self._total - self._done) / rate) if rate else 0
        share = f"{100 * self._done / self._total:.0f} %"
        return (
            f"{line} of {megabytes(self._total)} ({share}), {megabytes(rate)}/s, "
            f"{left // 60}:{left % 60:02d} left"
        )


def megabytes(count: float) -> str:
    """A number of bytes in readable form: "862.2 MB"."""
    return f"{count / 1e6:,.1f} MB"
