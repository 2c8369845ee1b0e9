"""Shows progress in Prefect's UI."""

import re
import time
from contextlib import suppress
from contextvars import copy_context
from typing import cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.runtime import flow_run

# Minimum interval between updates. Work that takes less time is not shown in the UI.
SECONDS_BETWEEN = 2.0


class ProgressArtifact:
    """A progress artifact of the run that creates it; outside of runs, nothing. Any thread may
    update it.

    If no server answers, the progress is not shown, but the work continues.
    """

    def __init__(self, name: str) -> None:
        self._key = "progress-" + re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
        self._id: UUID | None = None
        self._in_run = flow_run.id is not None
        self._context = copy_context()  # other threads lack the run's context
        self._last_update = time.monotonic()

    def update(self, percent: float, description: str) -> None:
        """Show the progress (0 to 100), unless the last update is too recent."""
        if self._in_run and time.monotonic() - self._last_update >= SECONDS_BETWEEN:
            self._last_update = time.monotonic()
            self._show(percent, description)

    def complete(self, description: str) -> None:
        """Show that all is done, if any progress was shown before."""
        if self._id is not None:
            self._show(100.0, description)

    def _show(self, percent: float, description: str) -> None:
        with suppress(httpx.HTTPError):
            self._context.copy().run(self._write, percent, description)

    def _write(self, percent: float, description: str) -> None:
        if self._id is None:
            created = create_progress_artifact(percent, key=self._key, description=description)
            self._id = cast(UUID, created)  # it is a coroutine in coroutines only
        else:
            update_progress_artifact(self._id, percent, description=description)
