"""Stages in use, which are locked against removal until the flow run that uses them ends.

The stages of each flow's newest successful run are recorded, and kept as well.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from infra.artifacts.locks import lock_file, shared_lock
from infra.artifacts.manifest import MANIFEST, stages_folder
from infra.artifacts.remote import republish
from infra.artifacts.shared_folder import pull, shared_folder
from infra.atomic_files import write_atomically
from infra.settings import settings

# Prefect is imported locally: it takes a second, and Ray's workers use stages without it.


class _Uses:
    """The stages used so far, as <stage>/<key>, each locked."""

    def __init__(self) -> None:
        self.locks = ExitStack()
        self.stages: set[str] = set()

    def add(self, folder: Path) -> None:
        stage = f"{folder.parent.name}/{folder.name}"
        if stage not in self.stages:
            self.locks.enter_context(shared_lock(lock_file(folder, "use")))
            self.stages.add(stage)
            with suppress(OSError):  # it is not built yet, or can't be written to
                os.utime(folder / MANIFEST)  # a machine's cache removes what was not used for long


_PROCESS_USES = _Uses()
_uses: ContextVar[_Uses] = ContextVar("_uses", default=_PROCESS_USES)


def use(folder: Path) -> None:
    """Keep a stage's folder until the flow run ends; outside a flow run, until the process ends."""
    _uses.get().add(folder)


@contextmanager
def used_by_flow() -> Iterator[None]:
    """Within a flow run's body, keep all stages that it and its subflows use until it ends.

    If the body succeeds, record them as the stages of the flow's newest run.
    """
    if _uses.get() is not _PROCESS_USES:
        yield
        return
    uses = _Uses()
    with uses.locks:
        uses.locks.callback(_uses.reset, _uses.set(uses))
        yield
        from prefect.runtime import flow_run

        record = {"flow_run": flow_run.id, "stages": sorted(uses.stages)}
        republish(stages_folder() / stage for stage in uses.stages)
        file = _newest_run(str(flow_run.flow_name))
        with shared_folder(file):
            write_atomically(file, json.dumps(record))


def _newest_run(flow: str) -> Path:
    return settings().root.resolve() / "newest" / f"{flow}.json"


def stages_in_use() -> set[str]:
    """The stages that the current flow run has used so far, as <stage>/<key>."""
    return set(_uses.get().stages)


def stages_of_newest_runs(flow: str = "*") -> set[str]:
    """The stages of a flow's newest successful run, or of every flow's, as <stage>/<key>."""
    pattern = _newest_run(flow)
    pull(pattern.parent)
    files = pattern.parent.glob(pattern.name)
    return {stage for file in files for stage in json.loads(file.read_bytes())["stages"]}
