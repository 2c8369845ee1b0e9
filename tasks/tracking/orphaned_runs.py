"""Flow runs that are under way on this machine, and what becomes of those that were killed.

A flow run writes down its process when it begins and takes the note away at its end. A note whose
process is gone tells of a run that nobody has ended: its MLflow runs, its state in Prefect and the
processes that it has left (Ray's bear its id in their environment) are ended by the next run.
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

from infra.processes import Recorded, end, record
from infra.settings import settings
from tasks.tracking.runs import finish_flow_run

VARIABLE = "BIDAFLOW_FLOW_RUN"
PATIENCE_SECONDS = 10.0
ENDED = "Its process had been killed; the next start has found it out."
UNFINISHED = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


@contextmanager
def under_way() -> Iterator[None]:
    """The body of a flow run: noted down until its end, after what killed runs left is swept."""
    if VARIABLE in os.environ and _note(os.environ[VARIABLE]).exists():
        yield  # below another flow run of this process
        return
    sweep()
    run_id = str(flow_run.id)
    note = _note(run_id)
    note.parent.mkdir(parents=True, exist_ok=True)
    unfinished = note.with_suffix(".unfinished")
    unfinished.write_text(record(os.getpid()).model_dump_json(), encoding="utf-8")
    unfinished.replace(note)  # others read it at any time
    os.environ[VARIABLE] = run_id
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        note.unlink(missing_ok=True)


def sweep() -> list[str]:
    """End what killed flow runs have left; the ids of those runs."""
    swept = [run_id for run_id, process in _notes().items() if not process.alive]
    for run_id in swept:
        _end_in_prefect(run_id)
        end_rest_of(run_id)
    return swept


def end_rest_of(run_id: str) -> None:
    """End the MLflow runs and the processes that a flow run has left, whose own process is gone."""
    finish_flow_run(settings().tracking_uri, run_id, "KILLED")
    end(_left_by(run_id), PATIENCE_SECONDS)
    _note(run_id).unlink(missing_ok=True)


def sweep_unnoted() -> int:
    """End in Prefect all runs of deployments that no process is working on; how many they were.

    Right only where no worker runs yet: a run that has just been taken up has no note.
    """
    alive = {run_id for run_id, process in _notes().items() if process.alive}
    states = FlowRunFilterState(type=FlowRunFilterStateType(any_=UNFINISHED))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=states))
        stuck = [run for run in runs if _is_stuck(run, alive)]
        for run in stuck:
            client.set_flow_run_state(run.id, Crashed(message=ENDED), force=True)
    return len(stuck)


def _is_stuck(run: FlowRun, alive: set[str]) -> bool:
    return run.deployment_id is not None and str(run.id) not in alive


def _end_in_prefect(run_id: str) -> None:
    with get_client(sync_client=True) as client:
        try:
            run = client.read_flow_run(UUID(run_id))
        except ObjectNotFound:
            return  # of another server's database
        if run.state is not None and not run.state.is_final():
            client.set_flow_run_state(run.id, Crashed(message=ENDED), force=True)


def _left_by(run_id: str) -> list[psutil.Process]:
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [p for p in psutil.process_iter() if p.pid not in own and _bears(p, run_id)]


def _bears(process: psutil.Process, run_id: str) -> bool:
    try:
        return process.environ().get(VARIABLE) == run_id
    except (psutil.Error, OSError):
        return False  # ended meanwhile, or another user's


def _notes() -> dict[str, Recorded]:
    notes = {}
    for file in _folder().glob("*.json"):
        with suppress(FileNotFoundError):  # its run has ended meanwhile
            notes[file.stem] = Recorded.model_validate_json(file.read_text(encoding="utf-8"))
    return notes


def _note(run_id: str) -> Path:
    return _folder() / f"{run_id}.json"


def _folder() -> Path:
    return settings().root.resolve() / "under-way"
