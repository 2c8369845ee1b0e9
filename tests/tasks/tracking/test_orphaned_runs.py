"""Cleanup of flow runs whose process was killed, in a real Prefect server and MLflow store."""

import os
import shutil
import subprocess
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from mlflow.tracking import MlflowClient
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.runtime import flow_run
from prefect.states import Cancelling, Completed, Running, Scheduled
from urllib3.util import Retry

from infra.processes import ProcessRecord, record_process
from infra.settings import settings
from tasks.tracking import runs
from tasks.tracking.orphaned_runs import (
    ROOT_VARIABLE,
    VARIABLE,
    active_flow_runs,
    crash_untracked_runs,
    end_mlflow_runs,
    end_orphaned_runs,
)
from tests.factories.ports import free_port

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


def process_of(run_id: UUID, root: Path) -> subprocess.Popen[bytes]:
    """A process that a flow run has started."""
    own = {VARIABLE: str(run_id), ROOT_VARIABLE: str(root)}
    return subprocess.Popen(["sleep", "600"], env={**os.environ, **own})


def test_orphaned_runs_crash_and_lose_their_processes(root: Path) -> None:
    left = uuid4()  # a run of another Prefect server
    remaining = process_of(left, root)
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


def test_unreachable_mlflow_does_not_keep_processes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # MLflow itself retries for two minutes.
    monkeypatch.setattr(Retry, "sleep", lambda *_: pytest.fail("it retried"))
    run_id = uuid4()
    remaining = process_of(run_id, root)
    left = note(root, run_id, ProcessRecord(pid=remaining.pid, created=0))
    with monkeypatch.context() as patch:
        patch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
        assert end_orphaned_runs() == [str(run_id)]
    assert remaining.wait(timeout=10) < 0 and left.exists()
    assert end_orphaned_runs() == [str(run_id)], "again, now that MLflow responds"
    assert not left.exists()


def test_failed_run_is_ended_when_mlflow_responds(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, failed = settings().tracking_uri, str(uuid4())
    run_id = runs.parent_run(uri, "bidaflow/tiny", failed, None, "failed", {})
    monkeypatch.setattr(Retry, "sleep", lambda *_: pytest.fail("it retried"))
    with monkeypatch.context() as patch:
        patch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
        end_mlflow_runs(failed, "FAILED")
    assert MlflowClient(uri).get_run(run_id).info.status == "RUNNING"
    assert end_orphaned_runs() == [failed]
    assert MlflowClient(uri).get_run(run_id).info.status == "KILLED"
    assert end_orphaned_runs() == []


def test_copied_root_leaves_the_originals_runs_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may even run the same scheduled runs, whose ids were copied with Prefect's database."""
    running, scheduled, uri = uuid4(), uuid4(), settings().tracking_uri
    run_id = runs.parent_run(uri, "bidaflow/tiny", str(running), None, "running", {})
    children = [process_of(flow_run_id, root) for flow_run_id in (running, scheduled)]
    try:
        note(root, running, record_process(children[0].pid))
        copy = root.with_name("copy")
        shutil.copytree(root, copy)
        children[0].kill()  # ... and a retry of the run has another process
        children[0].wait()
        children.append(process_of(running, root))
        monkeypatch.setenv("BIDAFLOW_ROOT", str(copy))
        assert active_flow_runs() == {}
        note(copy, scheduled, ProcessRecord(pid=children[0].pid, created=0))
        assert set(end_orphaned_runs()) == {str(running), str(scheduled)}
        assert not list((copy / "under-way").iterdir())
        assert [child.poll() for child in children[1:]] == [None, None]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert MlflowClient(settings().tracking_uri).get_run(run_id).info.status == "KILLED"
    assert MlflowClient(uri).get_run(run_id).info.status == "RUNNING"


def test_copied_root_leaves_runs_on_shared_servers(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, shared = uuid4(), root.with_name("shared.db")
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"sqlite:///{shared}")
    run_id = runs.parent_run(f"sqlite:///{shared}", "bidaflow/x", str(running), None, "x", {})
    with get_client(sync_client=True) as client:
        in_prefect = client.create_flow_run(killed, state=Running()).id
        gone = ProcessRecord(pid=os.getpid(), created=0)
        for flow_run_id in (running, in_prefect):
            note(root, flow_run_id, gone)
        shutil.copytree(root, root.with_name("copy"))
        monkeypatch.setenv("BIDAFLOW_ROOT", str(root.with_name("copy")))
        assert set(end_orphaned_runs()) == {str(running), str(in_prefect)}
        assert state_of(client, in_prefect) == "Running"
    assert MlflowClient(f"sqlite:///{shared}").get_run(run_id).info.status == "RUNNING"


def test_next_attempt_of_a_killed_run_does_not_crash(root: Path) -> None:
    @flow(name="retried")
    def retried() -> None:
        left = note(root, UUID(str(flow_run.id)), ProcessRecord(pid=os.getpid(), created=0))
        end_orphaned_runs()
        assert not left.exists()
        with get_client(sync_client=True) as client:
            assert state_of(client, UUID(str(flow_run.id))) == "Running"

    retried()


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
