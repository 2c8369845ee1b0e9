"""Cleanup after a flow run that fails or crashes: its MLflow runs and its child processes."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from mlflow.tracking import MlflowClient
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run

from flows.common.hooks import CLEANUP_HOOKS
from flows.common.user_errors import report_user_errors
from infra.errors import UserError
from infra.settings import settings
from tasks.tracking.runs import VariantRun, finish, parent_run, start_variant_run
from tasks.training.train_variant import parent_run_of

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One root for all tests, because creating MLflow's database takes longer than the tests."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture(autouse=True)
def root(shared_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", str(shared_root))


class StartedWork(NamedTuple):
    """What a flow run had started before it was interrupted."""

    flow_run_id: str
    runs: list[str]  # in MLflow: parent, running and finished training, another flow's parent
    process: subprocess.Popen[bytes]

    def statuses(self) -> list[str]:
        client = MlflowClient(settings().tracking_uri)
        return [client.get_run(run_id).info.status for run_id in self.runs]


def start_work() -> StartedWork:
    uri, own = settings().tracking_uri, str(flow_run.id)
    runs = [parent := parent_run_of("made")]
    runs += [
        start_variant_run(uri, parent, VariantRun("char", stage + own, {}, {}, []))
        for stage in ("begun-", "done-")
    ]
    finish(uri, runs[-1], "FINISHED")
    runs.append(parent_run(uri, "bidaflow/made", "another", None, "another", {}))
    return StartedWork(own, runs, subprocess.Popen(["sleep", "600"]))


@pytest.mark.parametrize(
    ("error", "state", "status"),
    [
        (RuntimeError("disk is full"), "Failed", "FAILED"),
        (UserError("broken.json: not valid JSON."), "Refused", "FAILED"),
        (KeyboardInterrupt(), "Crashed", "KILLED"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_interrupted_flow_ends_its_runs_and_processes(
    error: BaseException, state: str, status: str
) -> None:
    started: list[StartedWork] = []

    @flow(name="interrupted", **CLEANUP_HOOKS)
    @report_user_errors
    def interrupted() -> None:
        started.append(start_work())
        raise error

    with suppress(KeyboardInterrupt):
        interrupted(return_state=True)
    (work,) = started
    try:
        assert work.statuses() == [status, status, "FINISHED", "RUNNING"]
        with get_client(sync_client=True) as client:
            run = client.request("GET", f"/flow_runs/{work.flow_run_id}").json()
        assert run["state_name"] == state
        assert (work.process.poll() is not None) == (state == "Crashed")
        assert not list((settings().root / "under-way").iterdir())
    finally:
        work.process.kill()
        work.process.wait()
