"""Reports the progress of long work to the terminal, the log and Prefect's UI."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from logging import getLogger
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from infra.files import BytesRead, reporting_read_progress
from infra.heartbeat import sign_of_life
from infra.progress import Progress
from infra.run_logger import logger

# Prefect is imported where it is used: it takes seconds to load, and Ray's workers do not need it.

# Minimum interval between the lines about one piece of work.
LINE_SECONDS = 5.0


class ProgressReporter:
    """Reports the progress of one piece of work within a block: by a bar in a terminal, otherwise
    by occasional log lines, and in Prefect's UI if the work belongs to a run.

    Any thread may report. `total` may be changed while the work goes on.
    """

    def __init__(
        self, name: str, total: float | None = None, unit: str = "bytes", done_before: float = 0
    ) -> None:
        """`done_before` units were done earlier, for example by an interrupted download."""
        from infra.reporting.progress_artifact import ProgressArtifact

        self.name, self.total, self.unit, self.done_before = name, total, unit, done_before
        self.log: Callable[[str], None] = logger().info  # here, as other threads lack the run
        self._artifact = ProgressArtifact(name)
        self._bars = _bars_on(log_console())
        self._bar = self._bars.add_task("", text="", visible=False)
        self._start = self._last_line = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.perf_counter() - self._start

    def report(self, done: float, details: str = "", always: bool = False) -> None:
        """Report that `done` units are done; `always` logs a line in any case."""
        rate = (done - self.done_before) / max(self.seconds, 1e-9)
        self.show(Progress(self.name, done, self.total, self.unit, rate, details), always)

    def show(self, progress: Progress, always: bool = False) -> None:
        """Show progress that was measured here or by a worker; `always` as for `report`."""
        self._bars.update(
            self._bar,
            description=progress.title,
            completed=progress.percent,
            text=progress.text,
            visible=True,
        )
        self._bars.start()  # does nothing if another bar is shown
        sign_of_life()
        now = time.perf_counter()
        if always or (self._bars.disable and now - self._last_line >= LINE_SECONDS):
            self._last_line = now
            self.log(str(progress))
        self._artifact.update(progress.percent, str(progress))

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self._bars.remove_task(self._bar)
        if not self._bars.tasks:
            self._bars.stop()
        if error_type is None:
            self._artifact.complete(f"{self.name}: 100%, done in {self.seconds:,.0f} s")


@lru_cache(maxsize=1)
def _bars_on(console: Console) -> Bars:
    """The bars below a console's log, drawn in a terminal only.

    Parallel work shares them, as rich draws only one such area. Colours are explicit, because
    Prefect's console does not know rich's named styles.
    """
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(None, style="bright_black", complete_style="cyan", finished_style="green"),
        TextColumn("{task.fields[text]}"),
        console=console,
        expand=True,
        transient=True,
        redirect_stdout=False,
        disable=not console.is_interactive,
    )


def log_console() -> Console:
    """Prefect's log console, so that log lines appear above a bar; otherwise standard error."""
    from prefect.logging.handlers import PrefectConsoleHandler

    consoles = (h.console for h in getLogger().handlers if isinstance(h, PrefectConsoleHandler))
    return next(consoles, Console(stderr=True))


@contextmanager
def showing_read_progress(files: Sequence[Path]) -> Iterator[None]:
    """Show the reading of these files as progress within the block."""
    read = BytesRead(files)

    def update(file: Path, share: float) -> None:
        read.update(file, share)
        reporter.report(read.done)

    with ProgressReporter("reading", read.total) as reporter, reporting_read_progress(update):
        yield
