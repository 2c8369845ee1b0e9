"""Lines that tell how far a long piece of work is."""

import sys
import time
from collections.abc import Callable

SECONDS_BETWEEN = 5.0


class Progress:
    """Tells share, rate and time left of `total` units, at most every few seconds: in the log of
    the flow or task run in which it is made, outside of runs on the standard output."""

    def __init__(self, name: str, total: float, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.tell = _log_of_the_run() or _print  # at once: other threads know no run
        self.began = time.perf_counter()
        self.told = self.began

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return time.perf_counter() - self.began

    def at(self, done: float, more: str = "", always: bool = False) -> None:
        """Say that `done` units are done, if the last line is old enough or `always`."""
        now = time.perf_counter()
        if not done or not (always or now - self.told >= SECONDS_BETWEEN):
            return
        self.told = now
        rate = done / max(self.seconds, 1e-9)
        left = max(self.total - done, 0.0) / rate
        share = f"{min(done / self.total, 1.0):.0%}, " if self.total else ""
        left_text = f", {_clock(left)} left" if self.total and left >= 1 else ""
        self.tell(f"{self.name}: {share}{rate:,.0f} {self.unit} a second{more}{left_text}")


def _log_of_the_run() -> Callable[[str], None] | None:
    if "prefect" not in sys.modules:  # whoever has no run is spared the seconds of its import
        return None
    from prefect.exceptions import MissingContextError
    from prefect.logging import get_run_logger

    try:
        return get_run_logger().info
    except MissingContextError:
        return None


def _print(line: str) -> None:
    print(line, flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
    )
