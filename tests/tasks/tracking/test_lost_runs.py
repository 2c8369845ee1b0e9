"""MLflow runs of flow runs whose machine was lost, in a real Prefect server and MLflow store."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from mlflow.tracking import MlflowClient
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType

from infra.settings import settings
from tasks.tracking import runs
from tasks.tracking.lost_runs import end_lost_runs
from tests.factories.ports import free_port

pytestmark = pytest.mark.usefixtures("prefect_server", "root")


@flow(name="lost")
def lost() -> None: ...


def flow_run(kind: StateType) -> UUID:
    """A flow run in a state, for Prefect's server since just now."""
    with get_client(sync_client=True) as client:
        return client.create_flow_run(lost, state=State(type=kind)).id


def mlflow_run(flow_run_id: UUID) -> str:
    uri = settings().tracking_uri
    return runs.parent_run(uri, "bidaflow/tiny", str(flow_run_id), None, "lost", {})


def status(run_id: str) -> str:
    return str(MlflowClient(settings().tracking_uri).get_run(run_id).info.status)


def test_runs_of_ended_flow_runs_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    crashed, failed = flow_run(StateType.CRASHED), flow_run(StateType.FAILED)
    alive, elsewhere = flow_run(StateType.RUNNING), uuid4()  # a run of another Prefect server
    lost_runs = [mlflow_run(run) for run in (crashed, failed)]
    left_runs = [mlflow_run(run) for run in (alive, elsewhere)]
    assert end_lost_runs() == [], "they may still be ending their runs"
    monkeypatch.setattr("tasks.tracking.lost_runs.SETTLED", timedelta(0))
    with monkeypatch.context() as patch:
        patch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
        assert end_lost_runs() == [], "MLflow does not respond"
    assert set(end_lost_runs()) == {str(crashed), str(failed)}
    assert {status(run) for run in lost_runs} == {"KILLED"}
    assert {status(run) for run in left_runs} == {"RUNNING"}
    assert end_lost_runs() == []


def test_fresh_root_has_no_lost_runs() -> None:
    assert end_lost_runs() == []
    assert not (settings().root / "mlflow.db").exists(), "it creates no database"


def test_runs_of_other_users_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = mlflow_run(flow_run(StateType.CRASHED))
    monkeypatch.setattr("tasks.tracking.lost_runs.SETTLED", timedelta(0))

    def refuse(*_: object) -> None:
        raise MlflowException("Permission denied", error_code=PERMISSION_DENIED)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "set_terminated", refuse)
        assert end_lost_runs() == []
    assert status(run_id) == "RUNNING"
