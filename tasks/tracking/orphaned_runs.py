"""Tracks active flow runs on this machine, and cleans up orphaned runs, whose process was killed.

A flow run records its process in a note when it starts, and removes the note when it ends. A note
whose process is gone marks an orphaned run. The next flow run ends its MLflow runs, its Prefect
state, and its remaining processes (Ray's have the run id in their environment).
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, StateType
from prefect.runtime import flow_run
from prefect.states import Cancelled, Crashed

from infra.atomic_files import write_atomically
from infra.errors import UserError
from infra.processes import ProcessRecord, belongs_to_root, end, record_process, root_of_processes
from infra.run_logger import logger
from infra.settings import settings
from tasks.tracking.client import require_response
from tasks.tracking.lost_runs import end_lost_runs
from tasks.tracking.runs import Status, finish_flow_run

VARIABLE = "BIDAFLOW_FLOW_RUN"
# The root of the flow run: a copy of a root can have scheduled runs with the same ids.
ROOT_VARIABLE = "BIDAFLOW_FLOW_RUN_ROOT"
UNFINISHED = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


class ActiveRun(ProcessRecord, frozen=True):
    """The note of a flow run: its process, and what people know it by."""

    # Empty in the note of an ended run whose MLflow runs are still to be ended.
    flow: str = ""
    name: str = ""
    api: str = ""  # URL of the Prefect server's API


@contextmanager
def track_flow_run() -> Iterator[bool]:
    """Clean up orphaned and lost runs, then record this flow run as active during the block.

    Yields whether it is the run of its process, not one that another run has called.
    """
    if VARIABLE in os.environ and _note(os.environ[VARIABLE]).exists():
        yield False
        return
    end_orphaned_runs()
    if settings().address is not None:
        end_lost_runs()
    run_id = str(flow_run.id)
    note = _note(run_id)
    write_atomically(
        note,
        ActiveRun(
            **record_process(os.getpid()).model_dump(),
            flow=flow_run.flow_name or "",
            name=flow_run.name or "",
            api=os.environ.get("PREFECT_API_URL", ""),
        ).model_dump_json(),
    )
    own = {VARIABLE: run_id, ROOT_VARIABLE: root_of_processes()}
    os.environ |= own
    try:
        yield True
    finally:
        for name in own:
            del os.environ[name]
        note.unlink(missing_ok=True)


def active_flow_runs() -> dict[str, ActiveRun]:
    """The flow runs in progress on this machine, by id."""
    return {run_id: run for run_id, run in _notes().items() if run.alive}


def end_orphaned_runs() -> list[str]:
    """Clean up all orphaned runs of this machine. Returns their ids."""
    orphaned = {run_id: process for run_id, process in _notes().items() if not process.alive}
    for run_id, process in orphaned.items():
        if not process.is_of_root:
            _end_copied_run(run_id)
            continue
        if run_id != str(flow_run.id):  # else, this is its next attempt
            # Matches none if the run has ended, or belongs to another Prefect server.
            unfinished = {"type": {"not_any_": TERMINAL_STATES}}
            _mark_crashed({"id": {"any_": [run_id]}, "state": unfinished})
        end_orphaned_run(run_id)
    return list(orphaned)


def _end_copied_run(run_id: str) -> None:
    """End a flow run in the copy of a root that was made during the run. Its processes, and what
    servers have of it, belong to the original, where it may still run or be started again."""
    if settings().mlflow_tracking_uri is None:
        finish_flow_run(settings().tracking_uri, run_id, "KILLED")
    _note(run_id).unlink(missing_ok=True)


def end_orphaned_run(run_id: str) -> None:
    """End the remaining processes and MLflow runs of a flow run whose own process is gone."""
    end(_remaining_processes(run_id), patience=10)
    end_mlflow_runs(run_id, "KILLED")


def end_mlflow_runs(run_id: str, status: Status) -> None:
    """End the MLflow runs that an ended flow run left running.

    If MLflow does not respond, a note stays, so that the next start tries again.
    """
    uri, note = settings().tracking_uri, _note(run_id)
    try:
        require_response(uri)  # MLflow's own retries take minutes
    except UserError as error:
        logger().warning(
            f"The MLflow runs of the ended flow run {run_id} stay RUNNING until the next start "
            f"of a flow: {error}"
        )
        if not note.exists():
            write_atomically(note, ActiveRun(pid=os.getpid(), created=0).model_dump_json())
        return
    finish_flow_run(uri, run_id, status)
    note.unlink(missing_ok=True)


def crash_untracked_runs() -> int:
    """Mark all unfinished deployment runs without a live process as crashed in Prefect.

    Call it only before a worker runs, because a run that has just been picked up has no note yet.
    Returns the number of marked runs.
    """
    return _mark_crashed(
        {
            "id": {"not_any_": list(active_flow_runs())},
            "deployment_id": {"is_null_": False},
            "state": {"type": {"any_": UNFINISHED}},
        }
    )


def _mark_crashed(matching: Mapping[str, Any]) -> int:
    """Mark the flow runs that match a `FlowRunFilter`, given by its fields, as crashed in Prefect,
    or as cancelled if they were being cancelled. Returns their number."""
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(matching))
        for run in runs:
            cancelling = run.state is not None and run.state.is_cancelling()
            end_state = Cancelled if cancelling else Crashed
            message = "Process was killed; detected at the next start."
            client.set_flow_run_state(run.id, end_state(message=message), force=True)
    return len(runs)


def _remaining_processes(run_id: str) -> list[psutil.Process]:
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [
        process
        for process in psutil.process_iter(["environ"])
        if process.pid not in own and _belongs_to_run(process.info["environ"] or {}, run_id)
    ]


def _belongs_to_run(environment: Mapping[str, str], run_id: str) -> bool:
    """Whether a process with this environment, which is empty for those of other users, was started
    by a flow run of this root."""
    root = environment.get(ROOT_VARIABLE)
    return environment.get(VARIABLE) == run_id and root is not None and belongs_to_root(root)


def _notes() -> dict[str, ActiveRun]:
    notes = {}
    for file in _folder().glob("*.json"):
        with suppress(FileNotFoundError):  # its run has just ended
            notes[file.stem] = ActiveRun.model_validate_json(file.read_text(encoding="utf-8"))
    return notes


def _note(run_id: str) -> Path:
    return _folder() / f"{run_id}.json"


def _folder() -> Path:
    return settings().root.resolve() / "under-way"
