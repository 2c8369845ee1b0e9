"""How much of a dataset's files has been read: in the terminal or the log, and in Prefect."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tasks.inputs import stored_size, told_of_reading
from tasks.progress_artifact import ProgressArtifact
from tasks.transfer import megabytes, progress

SECONDS_BETWEEN = 2.0
"""Prefect's UI is told no more often, and nothing of what is read sooner."""


@contextmanager
def reading(files: Sequence[Path]) -> Iterator[None]:
    """Within the block of a flow run, what is read of these files is shown as its progress."""
    shown = _Reading(files)
    with progress("reading", 0, shown.total) as shown.advance, told_of_reading(shown.at):
        yield
    shown.artifact.complete(f"{megabytes(shown.total)} read")


class _Reading:
    """The bytes of each file that have been read."""

    advance: Callable[[int], None]

    def __init__(self, files: Sequence[Path]) -> None:
        self.sizes = {file: stored_size(file) for file in files}
        self.read = dict.fromkeys(self.sizes, 0)
        self.total = sum(self.sizes.values())
        self.artifact = ProgressArtifact("progress-reading")
        self.told = time.monotonic()

    def at(self, file: Path, share: float) -> None:
        """A share of one of the files has been read."""
        more = int(share * self.sizes.get(file, 0)) - self.read.get(file, 0)
        if more <= 0:
            return
        self.read[file] += more
        self.advance(more)
        if time.monotonic() - self.told >= SECONDS_BETWEEN:
            done = sum(self.read.values())
            told = f"{megabytes(done)} of {megabytes(self.total)} read"
            self.artifact.at(100 * done / self.total, told)
            self.told = time.monotonic()
