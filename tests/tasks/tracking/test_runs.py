"""Runs, metrics and artifacts in a real SQLite store, and through a real MLflow server."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import mlflow.data
import mlflow.pyfunc
import pytest
from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from urllib3.util import Retry

from infra.errors import RetryableError, UserError
from infra.settings import CHECKOUT
from tasks.tracking import metric_logger, model_logging, runs
from tasks.tracking.client import mlflow_client, require_server, run_url
from tasks.tracking.metric_logger import EpochLogger
from tasks.tracking.runs import InputDataset, VariantRun
from tests.factories.file_server import Served, serving
from tests.factories.logged_models import MODEL_INPUT, save_untrained_model, wait_for
from tests.factories.ports import free_port
from tests.factories.tracking_store import parent_run, recording_at

FLOW_URL = "http://127.0.0.1:4200/runs/flow-run/1"
DATASETS = (
    InputDataset("made-train", "ab" * 32, "/data/train.json", "train"),
    InputDataset("made-validation", "ef" * 32, "/data/validation.json", "validation"),
    InputDataset("made-dev", "cd" * 32, "/data/dev.json", "dev"),
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tracking store in a file that does not exist yet."""
    with recording_at(f"sqlite:///{tmp_path_factory.mktemp('root')}/mlflow.db") as uri:
        yield uri


def variant(parent_id: str, stage: str = "stage-1", resumed: bool = False) -> str:
    config = {"name": "baseline", "model": {"hidden_size": 3, "characters": None}}
    run = VariantRun("baseline", stage, config, {"variant": "baseline"}, DATASETS)
    return runs.start_variant_run(parent_id, run, resumed)


def read(run_id: str) -> Run:
    return mlflow_client().get_run(run_id)


def history(run_id: str, metric: str) -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in mlflow_client().get_metric_history(run_id, metric)]


def test_flow_run_keeps_one_parent_run_over_retries(uri: str) -> None:
    first = parent_run("retried", url=FLOW_URL)
    runs.finish(first, "FAILED")
    assert parent_run("retried", url=FLOW_URL) == first
    assert parent_run("another") != first
    run = read(first)
    assert run.info.status == "RUNNING"
    assert run.data.tags["prefect.flow_run_url"] == FLOW_URL
    assert FLOW_URL in run.data.tags["mlflow.note.content"]
    assert run.data.tags["dataset"] == "made"
    page = f"/#/experiments/{run.info.experiment_id}/runs/{first}"
    assert run_url(first) == f"http://127.0.0.1:5000{page}"


def test_variant_run_has_parent_config_and_inputs(uri: str) -> None:
    parent_id = parent_run("children")
    run = read(variant(parent_id))
    assert run.data.tags["mlflow.parentRunId"] == parent_id
    assert run.data.tags["prefect.flow_run_id"] == "children"
    assert run.data.tags["bidaflow.role"] == "variant"
    assert run.data.params == {
        "name": "baseline",
        "model.hidden_size": "3",
        "model.characters": "None",
    }
    inputs = {i.dataset.name: i for i in run.inputs.dataset_inputs}
    assert {name: i.tags[0].value for name, i in inputs.items()} == {
        "made-train": "train",
        "made-validation": "validation",
        "made-dev": "dev",
    }
    sources = {name: mlflow.data.get_source(i).to_dict() for name, i in inputs.items()}
    assert sources == {
        f"made-{split}": {"uri": f"/data/{split}.json"} for split in ("train", "validation", "dev")
    }
    assert ("ab" * 32).startswith(inputs["made-train"].dataset.digest)


def test_reopened_run_keeps_and_completes_parameters(uri: str) -> None:
    parent_id = parent_run("reopened")

    def opened(config: dict[str, Any]) -> str:
        return runs.start_variant_run(parent_id, VariantRun("char", "reopened", config, {}, []))

    first = opened({"data": {"seed": 7}})
    runs.finish(first, "KILLED")
    assert opened({"data": {"seed": 8, "negatives": 0.5}}) == first
    assert read(first).data.params == {"data.seed": "7", "data.negatives": "0.5"}


def test_takes_over_killed_but_not_finished_variants(uri: str) -> None:
    first = variant(parent_run("killed"), "stage-shared")
    runs.finish(first, "KILLED")
    second_parent = parent_run("successor")
    assert variant(second_parent, "stage-shared") == first
    assert read(first).data.tags["mlflow.parentRunId"] == second_parent
    assert read(first).data.tags["prefect.flow_run_id"] == "successor"
    runs.finish(first, "FINISHED")
    assert variant(parent_run("unfinished stage"), "stage-shared", True) == first
    runs.finish(first, "FINISHED")
    assert variant(parent_run("third"), "stage-shared") != first


@pytest.mark.parametrize(("status", "failed_becomes"), [("KILLED", "KILLED"), ("FAILED", "FAILED")])
def test_finish_flow_run_spares_finished_runs(
    uri: str, status: runs.Status, failed_becomes: str
) -> None:
    parent_id, other = parent_run("ended"), parent_run("unaffected")
    names = ("done", "running", "failed")
    done, running, failed = (variant(parent_id, name) for name in names)
    runs.finish(done, "FINISHED")
    runs.finish(failed, "FAILED")
    runs.finish_flow_run("ended", status)
    statuses = [read(run).info.status for run in (parent_id, running, done, failed, other)]
    assert statuses == [status, status, "FINISHED", failed_becomes, "RUNNING"]


def test_epoch_logger_averages_steps_and_resumes(uri: str) -> None:
    run_id = parent_run("metrics")
    killed = EpochLogger(uri, run_id)
    for step in range(15):
        killed.step(step, float(step))
    assert history(run_id, "train/batch_nll") == []
    checkpoint = json.loads(json.dumps([killed.nlls, killed.unsent]))
    logger = EpochLogger(uri, run_id, *checkpoint)
    for step in range(15, 25):
        logger.step(step, float(step))
    logger.epoch(24, {"train/nll": 12.0, "dev/nll": math.nan})
    assert history(run_id, "train/batch_nll") == [(9, 4.5), (19, 14.5)]
    assert history(run_id, "train/nll") == [(24, 12.0)]
    ((step, value),) = history(run_id, "dev/nll")
    assert step == 24 and math.isnan(value)
    for step in range(25, 10_015):
        logger.step(step, 1.0)
    logger.epoch(10_014, {"train/nll": 11.0})
    assert len(history(run_id, "train/batch_nll")) == 1_001, "sent in several calls"


def test_mlflow_does_not_hide_why_a_run_failed(uri: str) -> None:
    run_id = variant(parent_run("hidden"), "hidden")
    with pytest.raises(UserError, match="diverged"), runs.finishing_run(run_id):
        mlflow_client().delete_run(run_id)
        raise UserError("char diverged")


def test_message_about_unsent_metrics_masks_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    logger = EpochLogger(f"http://me:secret@127.0.0.1:{free_port()}", "run")
    logger.epoch(1, {"train/nll": 1.0})
    printed = capsys.readouterr().out
    assert "did not take 1 metrics" in printed and "http://***@127.0.0.1" in printed
    assert "secret" not in printed


def test_system_metrics_are_logged_during_a_run(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.2")
    run_id = parent_run("system")
    metrics: dict[str, float] = {}
    deadline = time.monotonic() + 600
    with metric_logger.system_metrics(run_id):
        while not metrics and time.monotonic() < deadline:
            time.sleep(0.1)
            metrics = read(run_id).data.metrics
    assert metrics["system/system_memory_usage_megabytes"] > 0
    assert metrics["system/cpu_utilization_percentage"] >= 0


def test_deleted_experiment_is_reported(uri: str) -> None:
    parent_run("first", "deleted")
    client = mlflow_client()
    client.delete_experiment(client.get_experiment_by_name("bidaflow/deleted").experiment_id)
    with pytest.raises(UserError, match="restore --experiment-id"):
        parent_run("second", "deleted")


def test_experiment_of_a_simultaneous_run_is_used(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up, others = MlflowClient.get_experiment_by_name, []

    def look_up_too_early(client: MlflowClient, name: str) -> Any:
        existing = look_up(client, name)
        if existing is None:
            others.append(client.create_experiment(name))
        return existing

    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", look_up_too_early)
    run = read(parent_run("late", "simultaneous"))
    assert others == [run.info.experiment_id]


def test_unreachable_server_fails_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    # MLflow itself retries for two minutes.
    monkeypatch.setattr(Retry, "sleep", lambda *_: pytest.fail("it retried"))
    message = r"No MLflow server responds at http://127\.0\.0\.1:\d+\."
    store = f"http://me:secret@127.0.0.1:{free_port()}/"
    with recording_at(store), pytest.raises(RetryableError, match=message):
        parent_run("nowhere")


def test_server_that_has_responded_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of the server must not end a run that has trained for hours."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with serving(Served(b"{}")) as served:
        monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", served.url.rpartition("/")[0])
        require_server()
    retries: list[Retry] = []
    monkeypatch.setattr(Retry, "sleep", lambda retry, *_: retries.append(retry))
    with pytest.raises(MlflowException):
        parent_run("restarting")
    assert retries


@pytest.mark.heavy
def test_database_setup_is_silent_and_leaves_cwd_clean(
    tmp_path: Path,
) -> None:
    code = "from tasks.tracking import runs; runs.parent_run_of('made')"
    working = tmp_path / "working"
    working.mkdir()
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=working,
        env={
            **os.environ,
            "PYTHONPATH": str(CHECKOUT),
            "BIDAFLOW_MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert (process.stdout, process.stderr) == ("", "")
    assert list(working.iterdir()) == []


@pytest.mark.heavy
def test_complete_run_works_through_a_server(
    server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.html").write_text("<html></html>")
    parent_id = parent_run("served")
    run_id = variant(parent_id)
    logger = EpochLogger(server, run_id)
    for step in range(1_000):
        logger.step(step, 2.0)
    logger.epoch(999, {"dev/f1": 50.0, "dev/nll": math.nan})
    runs.log_artifacts(run_id, [tmp_path / "report.html"])
    model_uri = model_logging.log_model(run_id, save_untrained_model(tmp_path), "bidaf-made", 999)
    runs.finish(run_id, "FINISHED")
    assert capfd.readouterr() == ("", "")
    assert len(mlflow.pyfunc.load_model(model_uri).predict(MODEL_INPUT)) == len(MODEL_INPUT)
    assert variant(parent_id) == run_id
    assert len(history(run_id, "train/batch_nll")) == 100
    assert read(run_id).data.metrics["dev/f1"] == 50.0
    artifacts = mlflow_client().list_artifacts(run_id)
    assert {artifact.path for artifact in artifacts} == {"model_card.md", "report.html"}
    assert run_url(run_id).startswith(f"{server}/#/experiments/")


OUTAGE_SECONDS = 50


@pytest.mark.heavy
@pytest.mark.full
def test_server_outage_loses_no_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    process = start_server(tmp_path, url)
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", url)
    run_id = variant(parent_run("outage"))
    logger = EpochLogger(url, run_id)
    logger.epoch(1, {"dev/f1": 1.0})
    stop(process)
    retried, restarted = Event(), []
    sleep = Retry.sleep

    def sleep_and_signal(retry: Retry, response: Any = None) -> None:
        retried.set()
        sleep(retry, response)

    def restart() -> None:
        if retried.wait(600):
            time.sleep(OUTAGE_SECONDS)
            restarted.append(start_server(tmp_path, url))

    monkeypatch.setattr(Retry, "sleep", sleep_and_signal)
    restarting = Thread(target=restart)
    restarting.start()
    logger.epoch(2, {"dev/f1": 2.0})
    logger.epoch(3, {"dev/f1": 3.0})
    assert retried.is_set(), "the server was never unreachable"
    restarting.join()
    assert history(run_id, "dev/f1") == [(1, 1.0), (2, 2.0), (3, 3.0)]
    stop(*restarted)


def start_server(root: Path, url: str) -> subprocess.Popen[bytes]:
    """Start a real MLflow server on loopback, and wait until it responds."""
    command: list[Any] = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
    command += ["--port", url.rpartition(":")[2]]
    command += ["--backend-store-uri", f"sqlite:///{root}/mlflow.db"]
    command += ["--artifacts-destination", root / "artifacts"]
    with (root / "log").open("a") as log:
        process = subprocess.Popen(command, cwd=root, stdout=log, stderr=log)
    wait_for(f"{url}/health", process)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(300)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The URL of a real MLflow server on loopback."""
    url = f"http://127.0.0.1:{free_port()}"
    process = start_server(tmp_path, url)
    with recording_at(url):
        yield url
    stop(process)
