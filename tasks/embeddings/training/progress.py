"""Progress lines of long-running work."""

import time
from collections.abc import Callable

from infra.run_logger import run_logger

REPORT_SECONDS = 5.0


class Progress:
    """Reports the share, rate and time left of `total` units, at most every few seconds.

    Lines go to the log of the flow or task run that creates the object, or to standard output
    outside of runs.
    """

    def __init__(self, name: str, total: float, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        log = run_logger()  # here, as other threads have no run context
        self.log_line: Callable[[str], None] = _print if log is None else log.info
        self.started = time.perf_counter()
        self.last_report = self.started

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.perf_counter() - self.started

    def report(self, done: float, details: str = "", always: bool = False) -> None:
        """Report that `done` units are done, if the last line is old enough or with `always`.

        `details` is appended to the rate.
        """
        now = time.perf_counter()
        if not done or not (always or now - self.last_report >= REPORT_SECONDS):
            return
        self.last_report = now
        rate = done / max(self.seconds, 1e-9)
        left = max(self.total - done, 0.0) / rate
        share = f"{min(done / self.total, 1.0):.0%}, " if self.total else ""
        left_text = f", {_clock(left)} left" if self.total and left >= 1 else ""
        self.log_line(f"{self.name}: {share}{rate:,.0f} {self.unit}/s{details}{left_text}")


def _print(line: str) -> None:
    print(line, flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
    )
