"""Cleanup of flow runs whose process was killed, in a real Prefect server and MLflow store."""

import os
import subprocess
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.states import Cancelling, Completed, Running, Scheduled

from infra.processes import ProcessRecord, record_process
from tasks.tracking.orphaned_runs import (
    VARIABLE,
    active_flow_runs,
    crash_untracked_runs,
    end_orphaned_runs,
)

pytestmark = pytest.mark.usefixtures("prefect_server", "root")


@flow(name="killed")
def killed() -> None: ...


def state_of(client: SyncPrefectClient, run_id: UUID) -> str | None:
    return client.read_flow_run(run_id).state_name


def note(root: Path, run_id: UUID, process: ProcessRecord) -> Path:
    file = root / "under-way" / f"{run_id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(process.model_dump_json())
    return file


def test_orphaned_runs_crash_and_lose_their_processes(root: Path) -> None:
    left = uuid4()  # a run of another Prefect server
    remaining = subprocess.Popen(["sleep", "600"], env={**os.environ, VARIABLE: str(left)})
    gone = ProcessRecord(pid=remaining.pid, created=0)
    with get_client(sync_client=True) as client:
        waiting = client.create_flow_run(killed, state=Scheduled()).id  # between two attempts
        done = client.create_flow_run(killed, state=Completed()).id
        cancelling = client.create_flow_run(killed, state=Cancelling()).id
        alive = client.create_flow_run(killed, state=Running()).id
        notes = [note(root, run_id, gone) for run_id in (waiting, done, cancelling, left)]
        kept = note(root, alive, record_process(os.getpid()))
        try:
            ended = {str(run_id) for run_id in (waiting, done, cancelling, left)}
            assert set(end_orphaned_runs()) == ended
            assert remaining.poll() is not None
        finally:
            remaining.kill()
            remaining.wait()
        states = [state_of(client, run_id) for run_id in (waiting, done, cancelling, alive)]
        assert states == ["Crashed", "Completed", "Cancelled", "Running"]
    assert kept.exists() and not any(file.exists() for file in notes)
    assert active_flow_runs().keys() == {str(alive)}


def test_only_processless_unfinished_runs_crash(root: Path) -> None:
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(killed), "killed")
        stuck, tracked, later = (
            client.create_flow_run_from_deployment(deployment, state=state()).id
            for state in (Running, Running, Scheduled)
        )
        own = client.create_flow_run(killed, state=Running()).id  # without a deployment
        note(root, tracked, record_process(os.getpid()))
        assert crash_untracked_runs() == 1
        states = [state_of(client, run_id) for run_id in (stuck, tracked, later, own)]
    assert states == ["Crashed", "Running", "Scheduled", "Running"]
