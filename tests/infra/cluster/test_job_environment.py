"""What travels to the nodes of a cluster: our code, and no secret."""

from pathlib import Path

import pytest

from infra.cluster.job_environment import forwarded_variables
from infra.errors import UserError


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
