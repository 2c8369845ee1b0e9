"""How far a piece of a flow run's work is, in Prefect's UI."""

from contextlib import suppress
from contextvars import copy_context
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact


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
