"""Tracks active flow runs on this machine, and cleans up orphaned runs, whose process was killed.

A flow run records its process in a note when it starts, and removes the note when it ends. A note
whose process is gone marks an orphaned run. The next flow run ends its MLflow runs, its Prefect
state, and its remaining processes (Ray's have the run id in their environment).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

import psutil
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound
from prefect.runtime import flow_run
from prefect.states import Crashed

from infra.atomic_files import write_atomically
from infra.processes import ProcessRecord, end, record_process
from infra.settings import settings
from tasks.tracking.runs import finish_flow_run

VARIABLE = "BIDAFLOW_FLOW_RUN"
TERMINATION_SECONDS = 10.0
CRASH_MESSAGE = "Process was killed; detected at the next start."
UNFINISHED = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


@contextmanager
def track_flow_run() -> Iterator[None]:
    """Clean up orphaned runs, then record this flow run as active during the block."""
    if VARIABLE in os.environ and _note(os.environ[VARIABLE]).exists():
        yield  # a subflow run in the process of its parent
        return
    end_orphaned_runs()
    run_id = str(flow_run.id)
    note = _note(run_id)
    write_atomically(note, record_process(os.getpid()).model_dump_json())
    os.environ[VARIABLE] = run_id
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        note.unlink(missing_ok=True)


def active_flow_runs() -> set[str]:
    """Ids of the flow runs in progress on this machine."""
    return {run_id for run_id, process in _notes().items() if process.alive}


def end_orphaned_runs() -> list[str]:
    """Clean up all orphaned runs of this machine. Returns their ids."""
    orphaned = [run_id for run_id, process in _notes().items() if not process.alive]
    for run_id in orphaned:
        _end_in_prefect(run_id)
        end_orphaned_run(run_id)
    return orphaned


def end_orphaned_run(run_id: str) -> None:
    """End the remaining MLflow runs and processes of a flow run whose own process is gone."""
    finish_flow_run(settings().tracking_uri, run_id, "KILLED")
    end(_remaining_processes(run_id), TERMINATION_SECONDS)
    _note(run_id).unlink(missing_ok=True)


def crash_untracked_runs() -> int:
    """Mark all unfinished deployment runs without a live process as crashed in Prefect.

    Call it only before a worker runs, because a run that has just been picked up has no note yet.
    Returns the number of marked runs.
    """
    alive = active_flow_runs()
    states = FlowRunFilterState(type=FlowRunFilterStateType(any_=UNFINISHED))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=states))
        stuck = [run for run in runs if _is_stuck(run, alive)]
        for run in stuck:
            client.set_flow_run_state(run.id, Crashed(message=CRASH_MESSAGE), force=True)
    return len(stuck)


def _is_stuck(run: FlowRun, alive: set[str]) -> bool:
    return run.deployment_id is not None and str(run.id) not in alive


def _end_in_prefect(run_id: str) -> None:
    with get_client(sync_client=True) as client:
        try:
            run = client.read_flow_run(UUID(run_id))
        except ObjectNotFound:
            return  # the run belongs to another Prefect server
        if run.state is not None and not run.state.is_final():
            client.set_flow_run_state(run.id, Crashed(message=CRASH_MESSAGE), force=True)


def _remaining_processes(run_id: str) -> list[psutil.Process]:
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [p for p in psutil.process_iter() if p.pid not in own and _belongs_to(p, run_id)]


def _belongs_to(process: psutil.Process, run_id: str) -> bool:
    try:
        return process.environ().get(VARIABLE) == run_id
    except (psutil.Error, OSError):
        return False  # it has ended, or belongs to another user


def _notes() -> dict[str, ProcessRecord]:
    notes = {}
    for file in _folder().glob("*.json"):
        with suppress(FileNotFoundError):  # its run has just ended
            notes[file.stem] = ProcessRecord.model_validate_json(file.read_text(encoding="utf-8"))
    return notes


def _note(run_id: str) -> Path:
    return _folder() / f"{run_id}.json"


def _folder() -> Path:
    return settings().root.resolve() / "under-way"
