"""Log forwarding: sends the output of Ray's workers to the flow run's log, and shows their progress
in Prefect's UI and as bars in a terminal."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import Context, copy_context

from prefect import get_run_logger
from rich.progress import Progress, TaskID, TextColumn

from infra.progress import bar_column, log_console
from infra.progress_artifact import ProgressArtifact

WORKER_LINE = re.compile(
    r"^(?:\x1b\[\d+m)?\((?P<worker>[^)]*pid=[^)]*)\)(?:\x1b\[0m)? (?P<line>.*)$"
)
"""Format in which Ray forwards a worker's line to the driver."""

PROGRESS_LINE = re.compile(
    r"^(?P<variant>\S+) epoch (?P<epoch>\d+)/(?P<epochs>\d+) step (?P<step>\d+)/(?P<steps>\d+)"
    r"(?P<details>.*)$"
)
ENDED_LINE = re.compile(r"^\S+ ended: ")


@contextmanager
def forwarding_logs() -> Iterator[None]:
    """Forward workers' lines to the log of the current flow run during the block."""
    output = _ForwardedOutput()
    with redirect_stdout(output):
        try:
            yield
        finally:
            output.end()


class _ForwardedOutput(io.TextIOBase):
    """Replaces standard output, to which Ray prints the workers' lines."""

    def __init__(self) -> None:
        self.log = get_run_logger()
        self.progress = _Progress(copy_context())
        self.rest = ""

    def write(self, text: str) -> int:
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            self._forward(line)
        return len(text)

    def end(self) -> None:
        """Forward an unterminated last line, and complete the progress artifacts and bars."""
        if self.rest:
            self._forward(self.rest)
        self.progress.complete()

    def _forward(self, line: str) -> None:
        match = WORKER_LINE.match(line)
        if not (match and self.progress.update(match["worker"], match["line"])):
            self.log.info(match["line"] if match else line)


class _Progress:
    """A progress artifact, and in a terminal a bar, for each worker that reports progress."""

    def __init__(self, context: Context) -> None:
        self.context = context  # Ray prints from its own thread, which has no flow-run context
        self.artifacts: dict[str, ProgressArtifact] = {}
        self.bars = _Bars()

    def update(self, worker: str, line: str) -> bool:
        """Update the progress from a worker's line. Returns whether a bar shows it."""
        if ENDED_LINE.match(line):
            self.bars.remove(worker)
        match = PROGRESS_LINE.match(line)
        if not match:
            return False
        epoch, epochs, step, steps = (int(match[n]) for n in ("epoch", "epochs", "step", "steps"))
        if worker not in self.artifacts:
            key = f"progress-{match['variant']}"
            self.artifacts[worker] = self.context.copy().run(ProgressArtifact, key)
        percent = 100 * (epoch - 1 + step / steps) / epochs
        self.artifacts[worker].update(percent, line)
        title = f"{match['variant']} epoch {epoch}/{epochs}"
        return self.bars.update(worker, percent, title, match["details"])

    def complete(self) -> None:
        self.bars.end()
        for artifact in self.artifacts.values():
            artifact.complete()


class _Bars:
    """A bar for each worker, below the log; none if the log does not go to a terminal."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            bar_column(None),
            TextColumn("{task.fields[details]}"),
        )
        console = log_console()
        self.shown = console.is_interactive
        self.progress = Progress(
            *columns, console=console, expand=True, transient=True, redirect_stdout=False
        )
        self.tasks: dict[str, TaskID] = {}

    def update(self, worker: str, percent: float, title: str, details: str) -> bool:
        """Update a worker's bar. Returns whether bars are shown."""
        if not self.shown:
            return False
        if worker not in self.tasks:
            self.progress.start()
            self.tasks[worker] = self.progress.add_task(title, details=details)
        self.progress.update(
            self.tasks[worker], description=title, completed=percent, details=details
        )
        return True

    def remove(self, worker: str) -> None:
        if worker in self.tasks:
            self.progress.remove_task(self.tasks.pop(worker))

    def end(self) -> None:
        if self.shown:
            self.progress.stop()
