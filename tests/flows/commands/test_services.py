"""`bidaflow status` without services; tests/infra/services has the one with them."""

import os
from pathlib import Path

import pytest

from flows.commands.services import status
from infra.errors import UserError
from infra.processes import ServicesRecord, record_process
from infra.services.supervisor import down
from tasks.tracking import model_logging, registry, runs
from tests.factories.logged_models import save_untrained_model
from tests.factories.ports import free_port


def test_status_of_a_new_root_creates_no_database(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status()
    assert capsys.readouterr().out.splitlines() == [
        f"Root       {root}",
        "Services   not running; start them with: bidaflow up",
        "Flow runs  none in progress",
    ]
    assert not root.exists()


@pytest.mark.heavy
def test_status_lists_champions(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root.mkdir()
    uri = f"sqlite:///{root}/mlflow.db"
    folder = save_untrained_model(tmp_path)
    run = runs.parent_run(uri, "bidaflow/own", "flow", None, "compare", {})
    for name in ("bidaf-own", "bidaf-other"):
        model_uri = model_logging.log_model(uri, run, folder, name, step=0)
        if name == "bidaf-own":
            registry.set_champion(uri, registry.get_version(uri, model_uri))
    status()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Champion")] == [
        "Champion   bidaf-own version 1"
    ]


def test_status_shows_running_and_stopped_services(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alive = record_process(os.getpid())
    ended = alive.model_copy(update={"pid": 2**22 + 1})
    ServicesRecord(
        supervisor=ended,
        services={"prefect": alive, "mlflow": ended},
        prefect_url="http://127.0.0.1:4200",
        mlflow_url="http://127.0.0.1:5000",
    ).write()
    status()
    rows = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["prefect", "running", str(os.getpid()), "http://127.0.0.1:4200"] in rows
    assert ["mlflow", "stopped", str(2**22 + 1), "http://127.0.0.1:5000"] in rows


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
