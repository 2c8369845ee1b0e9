"""How far a piece of a flow run's work is, in Prefect's UI."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact

from infra.files import stored_size, told_of_reading
from infra.progress import megabytes, progress

SECONDS_BETWEEN = 2.0
"""Prefect's UI is told no more often, and nothing of what is read sooner."""


class ProgressArtifact:
    """A progress artifact of the flow run in which it is made, whichever thread goes on with it.

    Nothing is shown while no server answers: the work itself goes on.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._id: UUID | None = None
        self._context = copy_context()  # other threads know no flow run

    def at(self, percent: float, description: str | None = None) -> None:
        """Show how far it is, 0 to 100; without a description the last one stays."""
        with suppress(httpx.HTTPError):
            self._context.copy().run(self._show, percent, description)

    def complete(self, description: str | None = None) -> None:
        """Show that all is done, where anything was shown before."""
        if self._id is not None:
            self.at(100.0, description)

    def _show(self, percent: float, description: str | None) -> None:
        if self._id is not None:
            update_progress_artifact(self._id, percent, description=description)
            return
        made = create_progress_artifact(percent, key=self._key, description=description)
        assert isinstance(made, UUID)
        self._id = made


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
