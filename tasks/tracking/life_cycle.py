"""The life of a flow run: noted while it lives, and ended everywhere if it dies or is cancelled.

A run that ends by itself removes its note. What a dead one has left is ended by the next flow, and
by `bidaflow up` and `down`: its state and its tasks in Prefect, its MLflow runs, and its processes
(Ray's have the run's id in their environment). Whether it is dead, its lock says, or its heartbeat
at the root's address (see `infra.artifacts.live_runs`).

A worker ends the process of a run that is cancelled. A run in a terminal ends itself, by Ctrl-C or
because its state says so: Prefect only marks it as cancelling.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from uuid import UUID

import httpx
import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, State, StateType
from prefect.logging.loggers import flow_run_logger
from prefect.runtime import flow_run
from prefect.states import Cancelled, Crashed

from infra.artifacts.live_runs import (
    Note,
    dead,
    live_runs,
    lost_notes,
    noted,
    notes,
    remove_note,
    write_note,
)
from infra.errors import UserError
from infra.processes import belongs_to_root, end, record_process, root_of_processes
from infra.run_logger import logger
from infra.settings import settings
from tasks.tracking.client import denied, require_server
from tasks.tracking.runs import Status, finish_flow_run

VARIABLE = "BIDAFLOW_FLOW_RUN"
# The root of the flow run: a copy of a root can have scheduled runs with the same ids.
ROOT_VARIABLE = "BIDAFLOW_FLOW_RUN_ROOT"
UNFINISHED = {"type": {"any_": [kind for kind in StateType if kind not in TERMINAL_STATES]}}
STARTED = {"type": {"any_": [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]}}
KILLED = "Its process was killed, or its machine was lost."
RESUME = "Started again, the run reuses finished steps, and trainings resume from a checkpoint."
# Seconds between two looks at the state of a run.
INTERVAL = 5.0


@contextmanager
def track_flow_run(command: str) -> Iterator[bool]:
    """End dead runs, then note this flow run, which `command` repeats, as alive during the block.

    Yields whether it is the run of its process, not one that another run has called.
    """
    if os.environ.get(VARIABLE) in notes():
        yield False
        return
    end_dead_runs()
    run_id = str(flow_run.id)
    note = Note(
        **record_process(os.getpid()).model_dump(),
        flow=flow_run.flow_name or "",
        name=flow_run.name or "",
        api=os.environ.get("PREFECT_API_URL", ""),
        command=command,
    )
    own = {VARIABLE: run_id, ROOT_VARIABLE: root_of_processes()}
    with noted(run_id, note):
        end_lost_runs()
        os.environ |= own
        try:
            yield True
        finally:
            for name in own:
                del os.environ[name]


def end_dead_runs(reason: str = KILLED) -> list[str]:
    """End what all dead runs of this root have left, and say why. Returns their ids."""
    with ExitStack() as locks:
        found = {i: note for i, note in notes().items() if locks.enter_context(dead(i))}
        for run_id, note in found.items():
            if note.is_of_root:
                end(_processes_of(run_id), patience=10)
        for run_id, note in found.items():
            if not note.is_of_root:
                # The root was copied during the run. Its processes, and what servers have of it,
                # belong to the original, where it may still run or be started again.
                if settings().mlflow_tracking_uri is None:
                    finish_flow_run(run_id, "KILLED")
                remove_note(run_id)
                continue
            if run_id != str(flow_run.id):  # else, this is its next attempt
                _end_in_prefect({"id": {"any_": [run_id]}, "state": UNFINISHED}, reason, note)
            end_mlflow_runs(run_id, "KILLED", reason)
    return list(found)


def end_lost_runs() -> list[str]:
    """End what runs without a heartbeat at the root's address have left. Returns their ids."""
    lost = []
    for run_id, note in lost_notes().items():
        _end_in_prefect({"id": {"any_": [run_id]}, "state": UNFINISHED}, KILLED, note)
        try:
            end_mlflow_runs(run_id, "KILLED", KILLED)
        except Exception as error:  # they may be those of another user
            if denied(error) is None:
                raise
            continue
        logger().info(f"Ended the flow run {note.name}, which was lost.")
        lost.append(run_id)
    return lost


def end_untracked_runs() -> int:
    """End the deployments' runs in Prefect that have started, but are not alive.

    Call it only while no worker runs, because a run that has just been picked up has no note yet.
    Returns their number.
    """
    ids = {"not_any_": list(live_runs())}
    return _end_in_prefect(
        {"id": ids, "deployment_id": {"is_null_": False}, "state": STARTED}, KILLED, None
    )


def end_flow_run(run: FlowRun, state: State[Any]) -> None:
    """End what a flow run, whose process is gone or about to go, has left; it ends in this state.

    A cancelled run's log and progress say so.
    """
    reason = state.message or state.name or KILLED
    end(_processes_of(str(run.id)), patience=10)
    is_cancelled = state.is_cancelled() or state.is_cancelling()
    with get_client(sync_client=True) as client:
        _end_tasks(client, run.id, (Cancelled if is_cancelled else Crashed)(message=reason))
    end_mlflow_runs(str(run.id), "KILLED", reason)
    if is_cancelled:
        report_cancellation(run)


def end_mlflow_runs(run_id: str, status: Status, reason: str | None = None) -> None:
    """End the MLflow runs that an ended flow run left running, and tag them with the reason.

    If MLflow does not respond, a note stays, so that the next start tries again.
    """
    try:
        require_server(again=True)  # MLflow's own retries take minutes
    except UserError as error:
        logger().warning(
            f"The MLflow runs of the ended flow run {run_id} stay RUNNING until the next start "
            f"of a flow: {error}"
        )
        if run_id not in notes():
            write_note(run_id, Note(pid=os.getpid(), created=0))
        return
    finish_flow_run(run_id, status, reason)
    remove_note(run_id)


def _end_in_prefect(matching: Mapping[str, Any], reason: str, note: Note | None) -> int:
    """End the flow runs that match a `FlowRunFilter`, given by its fields, and their tasks: as
    crashed, or as cancelled if they were being cancelled. Returns their number."""
    resume = f" It resumes with: {note.command}" if note and note.command else ""
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(matching))
        for run in runs:
            is_cancelling = run.state is not None and run.state.is_cancelling()
            state: State[Any] = (Cancelled if is_cancelling else Crashed)(
                message=f"{reason}{resume}"
            )
            client.set_flow_run_state(run.id, state, force=True)
            _end_tasks(client, run.id, state)
    return len(runs)


def _end_tasks(client: SyncPrefectClient, run_id: UUID, state: State[Any]) -> None:
    """End the tasks of a flow run that have not ended with this state."""
    tasks = client.read_task_runs(
        flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [run_id]}}),
        task_run_filter=TaskRunFilter.model_validate({"state": UNFINISHED}),
    )
    for task in tasks:
        client.set_task_run_state(task.id, state, force=True)


def _processes_of(run_id: str) -> list[psutil.Process]:
    """The processes that a flow run of this root has started and left."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    # They have no environment if they belong to another user.
    marked = [
        p for p in psutil.process_iter(["environ"]) if ROOT_VARIABLE in (p.info["environ"] or {})
    ]
    return [
        process
        for process in marked
        if process.pid not in own
        and process.info["environ"].get(VARIABLE) == run_id
        and belongs_to_root(process.info["environ"][ROOT_VARIABLE])
    ]


@contextmanager
def ending_if_cancelled() -> Iterator[None]:
    """End this process, and what it has started, if its run is cancelled during the block.

    Only for a process that runs nothing else, and in its main thread.
    """
    run_id = str(flow_run.id)
    finished = threading.Event()
    threading.Thread(target=_watch, args=(run_id, finished), daemon=True).start()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: _interrupt(run_id))
    try:
        yield
    finally:
        finished.set()
        signal.signal(signal.SIGINT, before)


def _watch(run_id: str, finished: threading.Event) -> None:
    with get_client(sync_client=True) as client:
        while not finished.wait(INTERVAL):
            with suppress(httpx.HTTPError):  # the server restarts
                state = client.read_flow_run(UUID(run_id)).state
                if state is not None and (state.is_cancelling() or state.is_cancelled()):
                    _replace_process(run_id)


def _interrupt(run_id: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C
    _replace_process(run_id)


def _replace_process(run_id: str) -> None:
    """Replace this program by one that ends the run.

    The threads of this one would log the end of their workers as failures, or wait for them.
    """
    os.write(sys.stderr.fileno(), "\nCancelling …\n".encode())  # now, not after all imports
    module = "flows.commands.end_cancelled_run"
    os.execv(sys.executable, [sys.executable, "-m", module, run_id])


def report_cancellation(run: FlowRun) -> None:
    """Say in the run's log, and in its last progress, that it was cancelled."""
    flow_run_logger(run).info(f"Cancelled: all its processes have ended. {RESUME}")
    with get_client(sync_client=True) as client:
        own = {"flow_run_id": {"any_": [run.id]}, "type": {"any_": ["progress"]}}
        for artifact in client.read_artifacts(artifact_filter=ArtifactFilter.model_validate(own)):
            progress = re.sub(r",?\s+[\d:]+ left$", "", artifact.description or "")
            update = ArtifactUpdate(description=f"{progress}, cancelled")
            client.update_artifact(artifact.id, update)
