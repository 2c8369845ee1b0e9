"""Stages in use, which are locked against removal until the flow run that uses them ends.

The stages of each flow's newest successful run are recorded, and kept as well.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from prefect.runtime import flow_run

from infra.artifacts.locks import shared_lock
from infra.atomic_files import write_atomically
from infra.settings import settings


class _Uses:
    """The stages used so far, each locked."""

    def __init__(self) -> None:
        self.locks = ExitStack()
        self.folders: dict[Path, None] = {}

    def add(self, folder: Path) -> None:
        if folder not in self.folders:
            self.locks.enter_context(shared_lock(lock_file(folder, "use")))
            self.folders[folder] = None


_PROCESS_USES = _Uses()
_flow_uses: ContextVar[_Uses | None] = ContextVar("_flow_uses", default=None)


def lock_file(folder: Path, purpose: str) -> Path:
    """The lock file of a stage's folder, locked while the folder is in use or being built."""
    return settings().root.resolve() / "locks" / f"{folder.parent.name}-{folder.name}.{purpose}"


def use(folder: Path) -> None:
    """Keep a stage's folder until the flow run ends; outside a flow run, until the process ends."""
    (_flow_uses.get() or _PROCESS_USES).add(folder)


@contextmanager
def used_by_flow() -> Iterator[None]:
    """Within a flow run's body, keep all stages that it and its subflows use until it ends.

    If the body succeeds, record them as the stages of the flow's newest run.
    """
    if _flow_uses.get() is not None:
        yield
        return
    uses = _Uses()
    token = _flow_uses.set(uses)
    with uses.locks:
        try:
            yield
            _record_stages(uses)
        finally:
            _flow_uses.reset(token)


def _newest_runs_folder() -> Path:
    return settings().root.resolve() / "newest"


def _record_stages(uses: _Uses) -> None:
    """Record the stages of the flow's newest run in place of those of the previous one."""
    file = _newest_runs_folder() / f"{flow_run.flow_name}.json"
    keys = [_key(folder) for folder in uses.folders]
    write_atomically(file, json.dumps({"flow_run": flow_run.id, "stages": keys}))


def _key(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def stages_in_use() -> set[str]:
    """The stages that the current flow run has used so far, as <stage>/<key>."""
    return {_key(folder) for folder in (_flow_uses.get() or _PROCESS_USES).folders}


def stages_of_newest_runs(flow: str = "*") -> set[str]:
    """The stages of a flow's newest successful run, or of every flow's, as <stage>/<key>."""
    records = [
        json.loads(file.read_text("utf-8")) for file in _newest_runs_folder().glob(f"{flow}.json")
    ]
    return {stage for record in records for stage in record["stages"]}
