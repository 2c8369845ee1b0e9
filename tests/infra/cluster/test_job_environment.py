"""What travels to the nodes of a cluster: our code, and no secret."""

import os
from pathlib import Path
from zipfile import ZipFile

import pytest

from infra.cluster.job_environment import forwarded_variables, write_code
from infra.errors import UserError
from infra.own_packages import PACKAGES
from infra.settings import CHECKOUT


def test_the_zip_has_our_packages_alone(tmp_path: Path) -> None:
    write_code(tmp_path / "code.zip")
    with ZipFile(tmp_path / "code.zip") as archive:
        names = set(archive.namelist())
        worker = archive.read("tasks/training/worker.py")
    assert worker == (CHECKOUT / "tasks" / "training" / "worker.py").read_bytes()
    assert any(name.startswith("tasks/reports/templates/") for name in names)
    assert {name.partition("/")[0] for name in names} == set(PACKAGES)
    assert not [name for name in names if "__pycache__" in name]


def test_the_same_sources_give_the_same_zip(tmp_path: Path) -> None:
    """Nodes keep unpacked code by the digest of the zip."""
    write_code(tmp_path / "first.zip")
    source = CHECKOUT / "infra" / "errors.py"
    status = source.stat()
    os.utime(source, (0, 10**9))
    try:
        write_code(tmp_path / "second.zip")
    finally:
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()


def test_addresses_travel_but_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent = {
        "BIDAFLOW_ROOT": "s3://bucket/folder",
        "BIDAFLOW_MLFLOW_TRACKING_URI": "http://mlflow:5000",
        "AWS_ENDPOINT_URL_S3": "http://store:9000",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    kept = {
        "BIDAFLOW_CACHE": str(tmp_path),
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "MLFLOW_TRACKING_PASSWORD": "password",
        "PREFECT_API_AUTH_STRING": "user:password",
        "RAY_AUTH_TOKEN": "token",
    }
    for name, value in (sent | kept).items():
        monkeypatch.setenv(name, value)
    variables = forwarded_variables()
    assert sent.items() <= variables.items()
    assert kept.keys().isdisjoint(variables)


def test_password_in_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", "http://user:hidden@mlflow:5000")
    with pytest.raises(UserError, match="MLFLOW_TRACKING_USERNAME") as raised:
        forwarded_variables()
    assert "hidden" not in str(raised.value)
