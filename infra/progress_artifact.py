"""Shows the progress of a flow run's work in Prefect's UI."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact

from infra.files import reporting_read_progress, stored_size
from infra.progress import megabytes, progress

SECONDS_BETWEEN = 2.0
"""Minimum interval between updates of the reading progress in Prefect's UI. Reading that takes less
time is not shown there."""


class ProgressArtifact:
    """A progress artifact of the flow run that creates it; any thread may update it.

    If no server answers, the progress is not shown, but the work continues.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._id: UUID | None = None
        self._context = copy_context()  # other threads lack the flow run's context

    def update(self, percent: float, description: str | None = None) -> None:
        """Show the progress (0 to 100); without a description, the last one stays."""
        with suppress(httpx.HTTPError):
            self._context.copy().run(self._show, percent, description)

    def complete(self, description: str | None = None) -> None:
        """Show that all is done, if any progress was shown before."""
        if self._id is not None:
            self.update(100.0, description)

    def _show(self, percent: float, description: str | None) -> None:
        if self._id is not None:
            update_progress_artifact(self._id, percent, description=description)
            return
        created = create_progress_artifact(percent, key=self._key, description=description)
        assert isinstance(created, UUID)
        self._id = created


@contextmanager
def showing_read_progress(files: Sequence[Path]) -> Iterator[None]:
    """Within a block of a flow run, show the reading of these files as its progress."""
    shown = _ReadProgress(files)
    with (
        progress("reading", 0, shown.total) as shown.advance,
        reporting_read_progress(shown.update),
    ):
        yield
    shown.artifact.complete(f"{megabytes(shown.total)} read")


class _ReadProgress:
    """The number of bytes read of each file."""

    advance: Callable[[int], None]

    def __init__(self, files: Sequence[Path]) -> None:
        self.sizes = {file: stored_size(file) for file in files}
        self.read = dict.fromkeys(self.sizes, 0)
        self.total = sum(self.sizes.values())
        self.artifact = ProgressArtifact("progress-reading")
        self.last_update = time.monotonic()

    def update(self, file: Path, share: float) -> None:
        """Record that a share (0 to 1) of one of the files has been read."""
        new_bytes = int(share * self.sizes.get(file, 0)) - self.read.get(file, 0)
        if new_bytes <= 0:
            return
        self.read[file] += new_bytes
        self.advance(new_bytes)
        if time.monotonic() - self.last_update >= SECONDS_BETWEEN:
            done = sum(self.read.values())
            description = f"{megabytes(done)} of {megabytes(self.total)} read"
            self.artifact.update(100 * done / self.total, description)
            self.last_update = time.monotonic()
