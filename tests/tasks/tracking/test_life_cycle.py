"""The end of killed, lost and cancelled flow runs, in a real Prefect server and MLflow store."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from mlflow.tracking import MlflowClient
from prefect import flow, task
from prefect.artifacts import create_progress_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.runtime import flow_run
from prefect.states import Cancelling, Completed, Running, Scheduled
from urllib3.util import Retry

from infra.artifacts.live_runs import LOST_SECONDS, Note, live_runs, noted
from infra.processes import ProcessRecord, record_process
from infra.settings import CHECKOUT, settings
from tasks.tracking.life_cycle import (
    KILLED,
    ROOT_VARIABLE,
    VARIABLE,
    end_dead_runs,
    end_lost_runs,
    end_mlflow_runs,
    end_untracked_runs,
    report_cancellation,
)
from tests.factories.cli import BIDAFLOW, environment_for
from tests.factories.http_server import http_server
from tests.factories.ports import free_port
from tests.factories.prefect_artifacts import artifacts
from tests.factories.tracking_store import parent_run

pytestmark = pytest.mark.usefixtures("prefect_server", "root")


@flow(name="killed")
def killed() -> None: ...


def state_of(client: SyncPrefectClient, run_id: UUID) -> str | None:
    return client.read_flow_run(run_id).state_name


def note(root: Path, run_id: UUID, process: ProcessRecord) -> Path:
    """Write the note of a dead run, whose lock nobody holds."""
    file = root / "under-way" / f"{run_id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(process.model_dump_json())
    return file


def own_note(**fields: str) -> Note:
    return Note(**record_process(os.getpid()).model_dump(), flow="retrain", **fields)


def process_of(run_id: UUID, root: Path) -> subprocess.Popen[bytes]:
    """A process that a flow run has started."""
    own = {VARIABLE: str(run_id), ROOT_VARIABLE: str(root)}
    return subprocess.Popen(["sleep", "600"], env={**os.environ, **own})


def test_dead_runs_crash_and_lose_their_processes(root: Path) -> None:
    left = uuid4()  # a run of another Prefect server
    remaining = process_of(left, root)
    gone = Note(pid=remaining.pid, created=0, command="bidaflow train --data.dataset tiny")
    with get_client(sync_client=True) as client:
        waiting = client.create_flow_run(killed, state=Scheduled()).id  # between two attempts
        done = client.create_flow_run(killed, state=Completed()).id
        cancelling = client.create_flow_run(killed, state=Cancelling()).id
        alive = client.create_flow_run(killed, state=Running()).id
        notes = [note(root, run_id, gone) for run_id in (waiting, done, cancelling, left)]
        try:
            ended = {str(run_id) for run_id in (waiting, done, cancelling, left)}
            with noted(str(alive), own_note()):
                assert set(end_dead_runs("Lost.")) == ended
                assert live_runs().keys() == {str(alive)}
                assert end_dead_runs() == []
            assert remaining.poll() is not None
        finally:
            remaining.kill()
            remaining.wait()
        states = [state_of(client, run_id) for run_id in (waiting, done, cancelling, alive)]
        assert states == ["Crashed", "Completed", "Cancelled", "Running"]
        state = client.read_flow_run(waiting).state
        assert state and state.message == f"Lost. It resumes with: {gone.command}"
    assert not any(file.exists() for file in notes) and live_runs() == {}


def test_tasks_and_mlflow_runs_of_dead_runs_say_why(root: Path) -> None:
    @task
    def step() -> None: ...

    uri = settings().tracking_uri
    with get_client(sync_client=True) as client:
        run_id = client.create_flow_run(killed, state=Running()).id
        for key, state in {"trained": Completed(), "training": Running()}.items():
            client.create_task_run(step, run_id, key, name=key, state=state)
        mlflow_run = parent_run(str(run_id), "tiny")
        note(root, run_id, ProcessRecord(pid=os.getpid(), created=0))
        end_dead_runs()
        own = FlowRunFilter.model_validate({"id": {"any_": [run_id]}})
        tasks = {run.name: run.state for run in client.read_task_runs(flow_run_filter=own)}
    training = tasks["training"]
    assert training is not None and (training.name, training.message) == ("Crashed", KILLED)
    assert tasks["trained"] is not None and tasks["trained"].name == "Completed"
    ended = MlflowClient(uri).get_run(mlflow_run)
    assert (ended.info.status, ended.data.tags["ended"]) == ("KILLED", KILLED)


def test_run_of_another_container_lives_until_killed(root: Path) -> None:
    """Its process id means nothing here, or is that of another process."""
    code = (
        "import time; from infra.artifacts.live_runs import LOST_SECONDS, Note, noted\n"
        "with noted('elsewhere', Note(pid=1, created=0, flow='train')):\n"
        "    print(flush=True); time.sleep(600)"
    )
    elsewhere = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment_for(root),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
    )
    try:
        assert elsewhere.stdout is not None
        elsewhere.stdout.readline()
        assert end_dead_runs() == [] and live_runs().keys() == {"elsewhere"}
    finally:
        elsewhere.kill()
        elsewhere.wait()
    assert live_runs() == {}


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder at the address of the root; runs are recorded elsewhere."""
    store = tmp_path / "store"
    store.mkdir()
    monkeypatch.setenv("BIDAFLOW_ROOT", store.as_uri())
    monkeypatch.setenv("BIDAFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/shared.db")
    return store


def test_run_of_a_lost_machine_ends_with_its_heartbeat(address: Path) -> None:
    uri = settings().tracking_uri
    with get_client(sync_client=True) as client:
        lost, alive = (client.create_flow_run(killed, state=Running()).id for _ in range(2))
        mlflow_runs = [parent_run(str(run_id), "tiny") for run_id in (lost, alive)]
        with ExitStack() as beats:
            for run_id in (lost, alive):
                beats.enter_context(noted(str(run_id), own_note()))
            file = address / "under-way" / f"{lost}.json"
            before = file.stat().st_mtime
            os.utime(file, (before - LOST_SECONDS / 2,) * 2)
            assert end_lost_runs() == []
            os.utime(file, (before - LOST_SECONDS - 5,) * 2)
            assert end_lost_runs() == [str(lost)]
            assert [state_of(client, run_id) for run_id in (lost, alive)] == ["Crashed", "Running"]
            status = [MlflowClient(uri).get_run(run).info.status for run in mlflow_runs]
            assert status == ["KILLED", "RUNNING"]
            assert [file.stem for file in file.parent.iterdir()] == [str(alive)]
    assert not list((address / "under-way").iterdir())


def test_lost_runs_of_other_users_are_left(address: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, alive = str(uuid4()), str(uuid4())

    def refuse(*_: object, **__: object) -> None:
        raise MlflowException("Permission denied", error_code=PERMISSION_DENIED)

    parent_run(lost, "tiny")
    monkeypatch.setattr(MlflowClient, "log_batch", refuse)
    with noted(lost, own_note()), noted(alive, own_note()):
        os.utime(address / "under-way" / f"{lost}.json", (0, 0))
        assert end_lost_runs() == []


def test_heart_beats(address: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.artifacts.live_runs.BEAT_SECONDS", 0.05)
    file = address / "under-way" / "beating.json"
    with noted("beating", own_note()):
        os.utime(file, (0, 0))
        deadline = time.monotonic() + 60
        while file.stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert not file.exists()


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
        assert end_dead_runs() == [str(run_id)]
    assert remaining.wait(timeout=10) < 0 and left.exists()
    assert end_dead_runs() == [str(run_id)], "again, now that MLflow responds"
    assert not left.exists()


def test_failed_run_is_ended_when_mlflow_responds(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, failed = settings().tracking_uri, str(uuid4())
    run_id = parent_run(failed, "tiny")
    monkeypatch.setattr(Retry, "sleep", lambda *_: pytest.fail("it retried"))
    with monkeypatch.context() as patch:
        patch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
        end_mlflow_runs(failed, "FAILED")
    assert MlflowClient(uri).get_run(run_id).info.status == "RUNNING"
    assert end_dead_runs() == [failed]
    assert MlflowClient(uri).get_run(run_id).info.status == "KILLED"
    assert end_dead_runs() == []


def test_copied_root_leaves_the_originals_runs_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may even run the same scheduled runs, whose ids were copied with Prefect's database."""
    running, scheduled, uri = uuid4(), uuid4(), settings().tracking_uri
    run_id = parent_run(str(running), "tiny")
    children = [process_of(flow_run_id, root) for flow_run_id in (running, scheduled)]
    try:
        note(root, running, record_process(children[0].pid))  # copied while it lived
        copy = root.with_name("copy")
        shutil.copytree(root, copy)
        children[0].kill()  # ... and a retry of the run has another process
        children[0].wait()
        children.append(process_of(running, root))
        monkeypatch.setenv("BIDAFLOW_ROOT", str(copy))
        assert live_runs() == {}
        note(copy, scheduled, ProcessRecord(pid=children[0].pid, created=0))
        assert set(end_dead_runs()) == {str(running), str(scheduled)}
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
    run_id = parent_run(str(running))
    with get_client(sync_client=True) as client:
        in_prefect = client.create_flow_run(killed, state=Running()).id
        gone = ProcessRecord(pid=os.getpid(), created=0)
        for flow_run_id in (running, in_prefect):
            note(root, flow_run_id, gone)
        shutil.copytree(root, root.with_name("copy"))
        monkeypatch.setenv("BIDAFLOW_ROOT", str(root.with_name("copy")))
        assert set(end_dead_runs()) == {str(running), str(in_prefect)}
        assert state_of(client, in_prefect) == "Running"
    assert MlflowClient(f"sqlite:///{shared}").get_run(run_id).info.status == "RUNNING"


def test_next_attempt_of_a_killed_run_does_not_crash(root: Path) -> None:
    @flow(name="retried")
    def retried() -> None:
        left = note(root, UUID(str(flow_run.id)), ProcessRecord(pid=os.getpid(), created=0))
        end_dead_runs()
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
        with noted(str(tracked), own_note()):
            assert end_untracked_runs() == 1
        states = [state_of(client, run_id) for run_id in (stuck, tracked, later, own)]
    assert states == ["Crashed", "Running", "Scheduled", "Running"]


PATIENCE = 300  # seconds
TEXTS = {"char": "char epoch 4/9  214 examples/s  1:24:04 left", "read": "read: 3%"}


@flow(name="under-way")
def under_way() -> str:
    for key, text in TEXTS.items():
        create_progress_artifact(3.0, key=f"cancelled-{key}", description=text)
    return str(flow_run.id)


def test_last_progress_says_that_the_run_was_cancelled() -> None:
    run_id = under_way()
    with get_client(sync_client=True) as client:
        report_cancellation(client.read_flow_run(UUID(run_id)))
    (training,), (reading,) = artifacts("cancelled-char"), artifacts("cancelled-read")
    shown: list[Any] = [training["description"], reading["description"]]
    assert shown == ["char epoch 4/9  214 examples/s, cancelled", "read: 3%, cancelled"]


@pytest.mark.heavy
def test_ctrl_c_cancels_a_run_without_services(tmp_path: Path) -> None:
    """A terminal sends it to all processes, and so also to the temporary Prefect server."""
    asked, ended = threading.Event(), threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            ended.wait(PATIENCE)

        do_HEAD = do_GET

    with http_server(Slow) as address:
        process = subprocess.Popen(
            [BIDAFLOW, "ingest", "--data.dataset", f"{address}/tickets.json"],
            env=environment_for(tmp_path),
            cwd=CHECKOUT,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert asked.wait(PATIENCE)
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
        finally:
            ended.set()
            process.kill()
    assert process.returncode == 1 and "Cancelled. Started again, the run" in errors, errors
    assert f"It resumes with: bidaflow ingest --data.dataset {address}/tickets.json" in errors
    with closing(sqlite3.connect(tmp_path / "prefect" / "prefect.db")) as database:
        assert database.execute("SELECT state_type FROM flow_run").fetchall() == [("CANCELLED",)]
