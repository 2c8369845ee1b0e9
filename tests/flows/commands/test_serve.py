"""What `bidaflow serve` refuses before it starts."""

import socket
from pathlib import Path

import pytest

from flows.commands.serve import serve
from infra.errors import UserError
from infra.settings import settings
from tests.factories.ports import free_port
from tests.factories.registered import NAME, register_versions

DATASET = NAME.removeprefix("bidaf-")


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores a variable that the command sets for its process."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")


def test_token_is_required_beyond_this_machine(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--host 0\.0\.0\.0 .* by --token-file, or omit --host"):
        serve(host="0.0.0.0")
    short = tmp_path / "token"
    short.write_text("secret\n")
    with pytest.raises(UserError, match="at least 16 ASCII characters"):
        serve(host="0.0.0.0", token_file=short)
    with pytest.raises(UserError, match=r"Can't read --token-file .*missing"):
        serve(token_file=tmp_path / "missing")


def test_options_are_checked(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--replicas must be at least 1, but is 0"):
        serve(replicas=0)
    with pytest.raises(UserError, match=r"--feedback .*missing is not a folder"):
        serve(feedback=tmp_path / "without parent" / "missing")


def test_taken_port_and_missing_champion(root: Path) -> None:
    message = r"Can't listen at .*in use.* Choose another --port"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserError, match=message):
        serve(port=taken.getsockname()[1])
    with pytest.raises(UserError, match="tiny has no champion yet"):
        serve(port=free_port())
    assert not Path(settings().root, "mlflow.db").exists()


def test_champion_without_files(root: Path) -> None:
    register_versions(champion="1")
    with pytest.raises(UserError, match="MLflow has no files of the model"):
        serve(DATASET, port=free_port())
