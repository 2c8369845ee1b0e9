"""Settings, read from environment variables."""

from pathlib import Path

import pytest

from infra import environment
from infra.errors import UserError
from infra.settings import CHECKOUT, NodeGroup, Settings, settings, variable_of
from tests.factories.cli import bidaflow


@pytest.fixture(autouse=True)
def unset_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_of(name), raising=False)


def test_defaults_stay_inside_the_checkout() -> None:
    assert settings().root == CHECKOUT / ".bidaflow"
    assert settings().mirror is None
    assert settings().tracking_uri == f"sqlite:///{CHECKOUT}/.bidaflow/mlflow.db"


def test_each_variable_sets_its_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {"ROOT": "root", "MIRROR": str(tmp_path / "mirror"), "CACHE_SIZE": "20GB"}
    for name, value in variables.items():
        monkeypatch.setenv(f"BIDAFLOW_{name}", value)
    assert settings().root == Path("root")
    assert settings().mirror == str(tmp_path / "mirror")
    assert settings().cache_size == 20 * 10**9
    assert settings().tracking_uri == f"sqlite:///{tmp_path}/root/mlflow.db"
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert settings().tracking_uri == "http://127.0.0.1:5000"
    assert settings().mlflow_database == f"sqlite:///{tmp_path}/root/mlflow.db"
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", "sqlite:////tmp/own.db")
    assert settings().mlflow_database == "sqlite:////tmp/own.db"


@pytest.fixture
def mlflow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", "http://mlflow:5000")


@pytest.mark.usefixtures("mlflow_server")
def test_address_has_a_folder_of_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_CACHE", str(tmp_path))
    roots, places = (
        set(),
        (("s3://a/b", ""), ("s3://a/b/", ""), ("s3://a/c", ""), ("s3://a/b", "x")),
    )
    for address, endpoint in places:
        monkeypatch.setenv("BIDAFLOW_ROOT", address)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        assert settings().address == address.rstrip("/")
        assert settings().root.parent == tmp_path
        roots.add(settings().root)
    assert len(roots) == 3


def test_address_needs_an_mlflow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", "s3://bucket/folder")
    with pytest.raises(UserError, match=r"^BIDAFLOW_ROOT is an address.*Set BIDAFLOW_MLFLOW_TRACK"):
        settings()


@pytest.mark.usefixtures("mlflow_server")
@pytest.mark.parametrize("folder", ["relative", "/absolute/s3:/x", "~/here", "odd://"])
def test_only_a_scheme_makes_an_address(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", folder)
    assert (settings().address is None) == (folder != "odd://")
    if settings().address is None:
        assert settings().root == Path(folder).expanduser()


def test_empty_variable_means_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    default = settings()
    for name in Settings.model_fields:
        monkeypatch.setenv(variable_of(name), "")
    assert settings() == default


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("BIDAFLOW_PREFECT_PORT", "http", "input should be a valid integer"),
        ("BIDAFLOW_MLFLOW_PORT", "70000", "input should be less than or equal to 65535"),
        (
            "BIDAFLOW_MLFLOW_TRACKING_URI",
            "http://127.0.0.1:500O",
            "port could not be cast to integer value as '500O'",
        ),
        ("BIDAFLOW_TIME_LIMIT_HOURS", "inf", "input should be less than or equal to 100000"),
        ("BIDAFLOW_KEEP_RUNS", "0", "input should be greater than or equal to 1"),
        ("BIDAFLOW_CACHE_SIZE", "20GX", "could not interpret byte unit: GX"),
        ("BIDAFLOW_NODE_GROUPS", "[4, 2", "invalid JSON"),
    ],
)
def test_invalid_variable_is_one_sentence(
    variable: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError) as raised:
        settings()
    assert str(raised.value).startswith(f"{variable} is invalid: {reason}")
    assert str(raised.value).endswith(f", got {value!r}. Fix or unset it.")


def test_command_prints_what_is_invalid(tmp_path: Path) -> None:
    done = bidaflow(tmp_path, "variants", BIDAFLOW_ROOT="s3://key:secret@bucket/folder")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("BIDAFLOW_ROOT is invalid: an address must not contain cred")
    assert "s3://***@bucket/folder" in done.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file", "Not a directory"),
        ("loop", "Symlink loop from"),
        ("~nosuchuser/root", "Could not determine home directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_unusable_root_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("BIDAFLOW_ROOT", name if name.startswith("~") else str(tmp_path / name))
    monkeypatch.delenv("PREFECT_HOME")
    with pytest.raises(UserError, match=f"^Can't write to .*: {reason}.* Set BIDAFLOW_ROOT to a"):
        environment.apply()


def test_node_groups_are_read_from_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_NODE_GROUPS", '[{"cpus": 8, "gpus": 1, "nodes": 2}]')
    assert settings().node_groups == [NodeGroup(cpus=8, gpus=1, nodes=2)]
    monkeypatch.setenv("BIDAFLOW_NODE_GROUPS", '[{"cpus": 0, "nodes": 2}]')
    with pytest.raises(UserError, match=r"BIDAFLOW_NODE_GROUPS is invalid: .* to 1, got 0"):
        settings()
