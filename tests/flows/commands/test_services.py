"""`bidaflow status` without services; tests/infra/services has the one with them."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prefect import flow
from prefect.artifacts import create_progress_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL

from flows.commands.services import status
from infra.errors import UserError
from infra.masking import mask_secrets
from infra.processes import ProcessRecord, ServicesRecord, record_process
from infra.services import prefect_api
from infra.services.prefect_api import next_run
from infra.services.supervisor import down
from tasks.tracking import model_logging, registry, runs
from tasks.tracking.life_cycle import track_flow_run
from tests.factories.http import ANSWER_SECONDS
from tests.factories.logged_models import save_untrained_model
from tests.factories.ports import free_port
from tests.factories.tracking_store import parent_run


@pytest.fixture(autouse=True)
def busy_servers_may_answer_late(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("SECONDS", "LOGIN_SECONDS"):
        monkeypatch.setattr(prefect_api, limit, ANSWER_SECONDS)


def test_status_of_a_new_root_creates_no_database(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status()
    assert capsys.readouterr().out.splitlines() == [
        f"Root       {root}",
        "Services   not running. Start them with: bidaflow up",
        "Running    no flow run",
        "Next run   none, as schedules need the services",
        "Champion   none yet. Train one with: bidaflow retrain",
    ]
    assert not (root / "mlflow.db").exists()


@pytest.mark.heavy
def test_status_lists_champions(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_untrained_model(tmp_path)
    run = parent_run("flow", "own")
    runs.tag(run, {"variant": "char"})
    runs.log_scores(run, {"dev/f1": 74.364})
    for name in ("bidaf-own", "bidaf-other", "of-another-project"):
        model_uri = model_logging.log_model(run, folder, name, step=0)
        if name != "bidaf-other":
            registry.set_champion(registry.find_version(model_uri))
    status()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Champion")] == [
        "Champion   own: version 1 (char), dev F1 74.36"
    ]


def test_status_of_a_named_server_that_is_down(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = f"http://user:hidden@127.0.0.1:{free_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", api)
    status()
    shown = capsys.readouterr().out
    assert f"Prefect    {mask_secrets(api)}\n" in shown
    assert (
        "Next run   unknown, as the request to Prefect failed: `bidaflow doctor` says why" in shown
    )
    assert "Services" not in shown and "hidden" not in shown


@pytest.mark.heavy
def test_status_of_named_servers(
    root: Path,
    prefect_server: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = PREFECT_API_URL.value() or ""
    monkeypatch.setenv("PREFECT_API_URL", api)
    status()
    shown = capsys.readouterr().out
    assert f"Prefect    {api}\n" in shown and "Next run   none scheduled\n" in shown
    alive = record_process(os.getpid())
    record_services(alive, worker=alive)
    status()
    shown = capsys.readouterr().out
    assert f"Prefect    {api}\n" in shown and "worker" in shown


def record_services(supervisor: ProcessRecord, **services: ProcessRecord) -> None:
    """Write services.json, with URLs at which no server responds."""
    port = free_port()
    ServicesRecord(
        supervisor=supervisor,
        services=services,
        prefect_url=f"http://127.0.0.1:{port}",
        mlflow_url=f"http://127.0.0.1:{port}",
    ).write()


def ended() -> ProcessRecord:
    """The record of a process that has ended."""
    return ProcessRecord(pid=2**22 + 1, created=0)


def test_status_tells_services_apart(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alive = record_process(os.getpid())
    record_services(alive, prefect=alive, mlflow=ended(), worker=alive)
    status()
    shown = capsys.readouterr().out
    rows = [line.replace("│", " ").split() for line in shown.splitlines()]
    assert [row[:-1] for row in rows if row[:1] == ["prefect"]] == [
        ["prefect", "not", "responding", str(os.getpid())]
    ]
    assert [row[:3] for row in rows if row[:1] == ["mlflow"]] == [
        ["mlflow", "stopped", str(ended().pid)]
    ]
    assert ["worker", "running", str(os.getpid())] in rows
    assert (
        "Next run   unknown, as the request to Prefect failed: `bidaflow doctor` says why" in shown
    )


def test_status_of_a_killed_up(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_services(ended(), prefect=ended(), worker=ended())
    status()
    assert "Services   not running: `bidaflow up` was killed." in capsys.readouterr().out
    record_services(ended(), prefect=ended(), worker=record_process(os.getpid()))
    status()
    shown = capsys.readouterr().out
    assert "Services   left by a killed `bidaflow up`. Stop them with: bidaflow down" in shown
    assert "Next run   none, as schedules need the services" in shown


@pytest.mark.heavy
def test_status_shows_a_run_and_its_progress(
    root: Path,
    prefect_server: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value() or "")

    @flow(name="retrain", flow_run_name="amber-fox")
    def running() -> None:
        with track_flow_run("bidaflow retrain"):
            create_progress_artifact(45.0, key="progress-char", description="char: 45%, 3:20 left")
            status()

    running()
    shown = capsys.readouterr().out
    since = datetime.fromtimestamp(record_process(os.getpid()).created)
    assert f"Running    retrain amber-fox, since {since:%a %H:%M}, char: 45%, 3:20 left" in shown
    status()
    assert "Running    no flow run" in capsys.readouterr().out


@pytest.mark.heavy
@pytest.mark.parametrize("zone", ["Asia/Tokyo", None])
def test_next_run_is_in_the_zone_of_its_schedule(prefect_server: None, zone: str | None) -> None:
    api = PREFECT_API_URL.value() or ""
    schedule = CronSchedule(cron="30 5 * * *", timezone=zone)
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow_from_name("nightly")
        deployment = client.create_deployment(
            flow_id, "nightly", schedules=[DeploymentScheduleCreate(schedule=schedule)]
        )
        try:
            # Prefect's client repeats a request that the server was too busy for.
            by_id = {"id": deployment}
            client.request("POST", "/deployments/{id}/schedule", path_params=by_id, json={})
            planned = next_run(api)
        finally:
            client.delete_deployment(deployment)
    assert planned is not None and planned.deployment == "nightly"
    if zone:
        assert f"{planned.time:%H:%M} {planned.time.tzinfo}" == f"05:30 {zone}"
    assert planned.time > datetime.now(UTC)


def test_status_names_a_server_that_does_not_respond(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", url)
    with pytest.raises(UserError, match=f"No MLflow server responds at {url}"):
        status()


def test_down_without_services(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    down()
    assert capsys.readouterr().out == "Nothing is running.\n"
