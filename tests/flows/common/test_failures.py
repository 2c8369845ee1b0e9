"""What a failed flow run leaves: one message on a user error, and no run or process; runs of
deployments without a dataset are refused."""

import json
import logging
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from mlflow.tracking import MlflowClient
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging.configuration import setup_logging
from prefect.runtime import flow_run

from flows.common.failures import (
    PRINTED_AT_EXIT,
    TRAINING_FLOW,
    check_deployed_run,
    report_user_errors,
    result_or_exit,
)
from flows.common.parameters import DataParameters
from flows.ingest import ingest
from infra.artifacts.stage import REFUSED_FLOW
from infra.errors import RetryableError, UserError
from infra.settings import settings
from tasks.datasets import catalog, download
from tasks.datasets.catalog import Dataset
from tasks.datasets.fetch import Source
from tasks.tracking.runs import VariantRun, finish, parent_run_of, start_variant_run
from tests.factories.tracking_store import parent_run

pytestmark = pytest.mark.usefixtures("prefect_server", "root")

MESSAGE = "broken.json: not valid JSON. Fix the file."


@flow(name="refused")
@report_user_errors
def refused_flow(fail: bool = True) -> str:
    if fail:
        raise UserError(MESSAGE)
    return "done"


@flow(name="crashing")
@report_user_errors
def crashing_flow() -> None:
    raise RuntimeError("disk is full")


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Log lines of flow runs and task runs, formatted as printed."""
    setup_logging()
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
    for logger in loggers:
        logger.addHandler(handler)
    yield lines
    for logger in loggers:
        logger.removeHandler(handler)


def exit_code(state: State[Any]) -> Any:
    with pytest.raises(SystemExit) as ended:
        result_or_exit(state)
    return ended.value.code


def test_user_error_reaches_state_log_and_terminal(log: list[str]) -> None:
    state = refused_flow(return_state=True)
    assert (state.name, state.message) == ("Failed", f"{REFUSED_FLOW}{MESSAGE}")
    assert [line for line in log if MESSAGE in line] == [MESSAGE]
    assert not any("Traceback" in line or "NoneType" in line for line in log)
    assert exit_code(state) == f"\n{MESSAGE}"
    assert result_or_exit(refused_flow(fail=False, return_state=True)) == "done"
    assert set(refused_flow.parameters.properties) == {"fail"}


def test_other_errors_keep_their_traceback(log: list[str]) -> None:
    state = crashing_flow(return_state=True)
    assert state.name == "Failed"
    assert any("Traceback" in line and "disk is full" in line for line in log)
    with pytest.raises(RuntimeError, match="disk is full"):
        result_or_exit(state)


def ingest_path(path: Path) -> State[Any]:
    return ingest(DataParameters(dataset=str(path)), return_state=True)


def test_stage_error_becomes_the_flow_error(tmp_path: Path, root: Path, log: list[str]) -> None:
    question = {"question": "What?", "answers": [{"text": "mill", "answer_start": 4}]}
    article = {"title": "Mills", "paragraphs": [{"qas": [question]}]}
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({"data": [article]}))
    state = ingest_path(broken)
    assert state.message and state.message.startswith(REFUSED_FLOW)
    assert all(
        part in exit_code(state) for part in (str(broken), "Mills", "paragraph 1", '"context"')
    )
    assert not any("Traceback" in line for line in log)
    assert not list((root / "stages" / "ingest").iterdir())


def test_unreachable_host_gives_a_user_error(
    monkeypatch: pytest.MonkeyPatch, root: Path, log: list[str]
) -> None:
    monkeypatch.delenv("BIDAFLOW_MIRROR", raising=False)
    monkeypatch.setattr(download, "BACK_OFF_SECONDS", 0.01)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/made.json"
        source = Source(name="made.json", sha256="0" * 64, url=url)
        made = Dataset(name="made", contents="", about="", licence="", train=source, dev=source)
        monkeypatch.setitem(catalog.DATASETS, "made", made)
        state = ingest(DataParameters(dataset="made"), return_state=True)
    message = exit_code(state)
    assert url in message and "by hand" in message and "BIDAFLOW_MIRROR" in message
    assert len([line for line in log if "retrying in" in line]) == download.ATTEMPTS - 1
    assert not any("Traceback" in line for line in log)


@pytest.mark.parametrize(
    ("error", "printed", "attempts"),
    [(UserError, False, 1), (RetryableError, False, 3), (RetryableError, True, 1)],
)
def test_only_transient_failures_are_retried(
    error: type[UserError], printed: bool, attempts: int, log: list[str]
) -> None:
    tried = []
    on_terminal = PRINTED_AT_EXIT.set(printed)

    @flow(name="failing", retries=2)
    @report_user_errors
    def failing() -> None:
        tried.append(None)
        raise error(MESSAGE)

    state = failing(return_state=True)
    PRINTED_AT_EXIT.reset(on_terminal)
    assert (state.name, len(tried)) == ("Failed", attempts)
    assert any("Traceback" in line for line in log) == (attempts > 1)
    assert exit_code(state) == f"\n{MESSAGE}"


@pytest.mark.heavy
def test_timed_out_flow_is_not_retried() -> None:
    attempts = []

    @flow(name="idling", timeout_seconds=3, retries=2)
    @report_user_errors
    def idling() -> None:
        attempts.append(time.monotonic())
        for _ in range(600):
            time.sleep(0.1)  # the timeout is raised only after a call returns

    state = idling(return_state=True)
    assert (state.name, len(attempts)) == ("TimedOut", 1)


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One root for all tests, because creating MLflow's database takes longer than the tests."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture
def with_shared_root(root: Path, shared_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    own = str(flow_run.id)
    runs = [parent := parent_run_of("made")]
    runs += [
        start_variant_run(parent, VariantRun("char", stage + own, {}, {}, []))
        for stage in ("begun-", "done-")
    ]
    finish(runs[-1], "FINISHED")
    runs.append(parent_run("another"))
    return StartedWork(own, runs, subprocess.Popen(["sleep", "600"]))


@pytest.mark.usefixtures("with_shared_root")
@pytest.mark.parametrize(
    ("error", "state", "status"),
    [
        (RuntimeError("disk is full"), "Failed", "FAILED"),
        (UserError("broken.json: not valid JSON."), "Failed", "FAILED"),
        (KeyboardInterrupt(), "Crashed", "KILLED"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_interrupted_flow_ends_its_runs_and_processes(
    error: BaseException, state: str, status: str
) -> None:
    started: list[StartedWork] = []

    @flow(name="interrupted", **TRAINING_FLOW)
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


def run_with(parameters: dict[str, Any], scheduled: bool = True) -> FlowRun:
    return FlowRun(
        flow_id=uuid4(), deployment_id=uuid4(), parameters=parameters, auto_scheduled=scheduled
    )


@pytest.mark.parametrize(
    "parameters",
    [
        *({}, {"data": {}}, {"data": {"dev_share": 0.2}}, {"variants": ["char"]}),
        *({"data": []}, {"data": [{"dataset": "tiny"}, {}]}),
    ],
)
def test_schedule_without_dataset_is_refused(parameters: dict[str, Any]) -> None:
    for name in ("retrain", "compare-variants"):
        with pytest.raises(UserError, match=r"schedule without a dataset \(data\.dataset\)"):
            check_deployed_run(name, run_with(parameters))


@pytest.mark.parametrize(
    "data", [{"dataset": "tiny"}, {"train_files": ["a.json"]}, ["tiny", {"dataset": "own"}]]
)
def test_schedule_with_a_dataset_is_accepted(data: Any) -> None:
    check_deployed_run("retrain", run_with({"data": data}))


def test_quick_run_is_refused() -> None:
    with pytest.raises(UserError, match=r"no dataset \(data\.dataset\).* custom run.* to tiny"):
        check_deployed_run("retrain", run_with({}, scheduled=False))


def test_terminals_and_other_flows_need_no_dataset() -> None:
    check_deployed_run("retrain", FlowRun(flow_id=uuid4(), parameters={}))
    check_deployed_run("train-embeddings", run_with({}))
