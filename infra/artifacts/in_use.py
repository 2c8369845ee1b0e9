"""Stages in use, which are locked against removal until the flow run that uses them ends.

The stages of each flow's newest successful run are recorded, and kept as well.
"""

import fnmatch
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from infra.artifacts.locks import lock_file, shared_lock
from infra.artifacts.manifest import MANIFEST, stages_folder
from infra.artifacts.remote import republish
from infra.storage.store import storage

# Prefect is imported locally: it takes a second, and Ray's workers use stages without it.

NEWEST = "newest"  # the folder below the root


class _Uses(NamedTuple):
    """The stages used so far, as <stage>/<key>, and their locks."""

    stages: set[str]
    locks: ExitStack


_PROCESS_USES = _Uses(set(), ExitStack())
_uses: ContextVar[_Uses] = ContextVar("_uses", default=_PROCESS_USES)


def use(folder: Path) -> None:
    """Keep a stage's folder until the flow run ends; outside a flow run, until the process ends."""
    uses, stage = _uses.get(), f"{folder.parent.name}/{folder.name}"
    if stage not in uses.stages:
        uses.locks.enter_context(shared_lock(lock_file(folder, "use")))
        uses.stages.add(stage)
        with suppress(OSError):  # it is not built yet, or can't be written to
            os.utime(folder / MANIFEST)  # a machine's cache removes what was not used for long


@contextmanager
def used_by_flow() -> Iterator[None]:
    """Within a flow run's body, keep all stages that it and its subflows use until it ends.

    If the body succeeds, record them as the stages of the flow's newest run.
    """
    if _uses.get() is not _PROCESS_USES:
        yield
        return
    uses = _Uses(set(), ExitStack())
    with uses.locks:
        uses.locks.callback(_uses.reset, _uses.set(uses))
        yield
        from prefect.runtime import flow_run

        republish(stages_folder() / stage for stage in uses.stages)
        record = json.dumps({"stages": sorted(uses.stages)})
        storage().write(f"{NEWEST}/{flow_run.flow_name}.json", record.encode())


def stages_in_use() -> set[str]:
    """The stages that the current flow run has used so far, as <stage>/<key>."""
    return set(_uses.get().stages)


def stages_of_newest_runs(flow: str = "*") -> set[str]:
    """The stages of a flow's newest successful run, or of every flow's, as <stage>/<key>."""
    newest = storage().below(NEWEST)
    records = [newest.read(name) for name in fnmatch.filter(newest.listed(), f"{flow}.json")]
    return {stage for record in records if record for stage in json.loads(record)["stages"]}
