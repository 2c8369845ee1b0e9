"""What Ray's workers print, as lines of the flow run's log, and as its progress in Prefect's UI."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import Context, copy_context

from prefect import get_run_logger

from tasks.progress_artifact import ProgressArtifact

FROM_WORKER = re.compile(
    r"^(?:\x1b\[\d+m)?\((?P<worker>[^)]*pid=[^)]*)\)(?:\x1b\[0m)? (?P<line>.*)$"
)
"""How Ray passes a worker's line on to the driver."""

HOW_FAR = re.compile(
    r"^(?P<what>\S+) epoch (?P<epoch>\d+)/(?P<epochs>\d+) step (?P<step>\d+)/(?P<steps>\d+)"
)


@contextmanager
def following() -> Iterator[None]:
    """Within the block, workers' lines go to the log of the flow run that opened it."""
    lines = _Lines()
    with redirect_stdout(lines):
        try:
            yield
        finally:
            lines.end()


class _Lines(io.TextIOBase):
    """Takes the place of the standard output, on which Ray prints what workers say."""

    def __init__(self) -> None:
        self.log = get_run_logger()
        self.progress = _Progress(copy_context())
        self.rest = ""

    def write(self, text: str) -> int:
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            self._take(line)
        return len(text)

    def end(self) -> None:
        """Give out a line that was not ended, and complete what has progressed."""
        if self.rest:
            self._take(self.rest)
        self.progress.complete()

    def _take(self, line: str) -> None:
        found = FROM_WORKER.match(line)
        self.log.info(found["line"] if found else line)
        if found:
            self.progress.follow(found["worker"], found["line"])


class _Progress:
    """A progress artifact for each worker that says how far it is."""

    def __init__(self, context: Context) -> None:
        self.context = context  # Ray prints from a thread of its own, which knows no flow run
        self.artifacts: dict[str, ProgressArtifact] = {}

    def follow(self, worker: str, line: str) -> None:
        found = HOW_FAR.match(line)
        if not found:
            return
        epoch, epochs, step, steps = (int(found[n]) for n in ("epoch", "epochs", "step", "steps"))
        if worker not in self.artifacts:
            key = f"progress-{found['what']}"
            self.artifacts[worker] = self.context.copy().run(ProgressArtifact, key)
        self.artifacts[worker].at(100 * (epoch - 1 + step / steps) / epochs, line)

    def complete(self) -> None:
        for artifact in self.artifacts.values():
            artifact.complete()
