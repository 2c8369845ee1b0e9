"""The checks of `bidaflow doctor`: each reports a problem and its remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from importlib.metadata import version
from pathlib import Path

import pytest

from infra.services.checks import Check, run_checks
from tests.factories.cli import bidaflow
from tests.factories.http_server import http_server
from tests.factories.object_store import ObjectStore

AUTHORIZATION = "Basic dXNlcjpwYXNz"  # user:pass


@contextmanager
def server(text: str) -> Iterator[str]:
    """A server that answers this text to those who log in."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["Authorization"] == AUTHORIZATION
            self.send_response(200 if allowed else 401)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with http_server(Handler) as url:
        yield url


def check(name: str) -> Check:
    return next(check for check in run_checks() if check.name == name)


@pytest.fixture(autouse=True)
def no_servers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PREFECT_API_URL", "RAY_ADDRESS", "BIDAFLOW_MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.heavy
def test_a_machine_without_servers_is_fine() -> None:
    of_the_machine = {"free space", "GPU", "packages"}
    checks = [check for check in run_checks() if check.name not in of_the_machine]
    assert len(checks) == 4 and all(check.ok for check in checks), checks


def test_mlflow_server_must_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", "http://user:secret@127.0.0.1:1")
    found = check("MLflow")
    assert found.found.startswith("No MLflow server responds at http://***@127.0.0.1:1 (")
    assert found.to_do == "Start it, or correct or unset BIDAFLOW_MLFLOW_TRACKING_URI."


@pytest.mark.parametrize("password", ["", "wrong", "pass"])
def test_password_of_mlflow_is_checked(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(version("mlflow")) as url:
        monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", url)
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "user")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
        found = check("MLflow")
    assert found.ok == (password == "pass")
    assert found.ok or found.to_do == "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."


def test_prefect_server_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(f'"{version("prefect")}"') as url:
        monkeypatch.setenv("PREFECT_API_URL", f"{url}/api")
        assert check("Prefect").to_do == "Set PREFECT_API_AUTH_STRING to user:password."
        monkeypatch.setenv("PREFECT_API_AUTH_STRING", "user:pass")
        assert check("Prefect").ok
    with server('"3.0.0"') as url:
        monkeypatch.setenv("PREFECT_API_URL", f"{url}/api")
        assert check("Prefect").to_do == f"Install prefect=={version('prefect')} there."


def test_root_must_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "file"))
    assert check("storage root").to_do == "Set BIDAFLOW_ROOT to a folder you can write to."


def test_root_at_an_address_is_checked(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check("storage root").ok
    monkeypatch.setenv("BIDAFLOW_ROOT", "s3://missing/folder")
    assert check("storage root").to_do == "Create the bucket, or correct BIDAFLOW_ROOT."


@pytest.mark.heavy
@pytest.mark.full
def test_failed_check_sets_the_exit_code(tmp_path: Path) -> None:
    unreachable = {"BIDAFLOW_MLFLOW_TRACKING_URI": "http://127.0.0.1:1"}
    done = bidaflow(tmp_path, "doctor", COLUMNS="300", **unreachable)
    assert done.returncode == 1
    assert "No MLflow server responds at http://127.0.0.1:1" in done.stdout
    assert done.stdout.rstrip().endswith("checks failed.")


def test_unreachable_cluster_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    result = check("Ray")
    assert result.found.startswith("No Ray cluster answers at 127.0.0.1:1")
    assert result.to_do == "Start it, or correct RAY_ADDRESS."
