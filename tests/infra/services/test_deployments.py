"""The environment of the services."""

from pathlib import Path

import pytest

from infra.services.deployments import command_environment


def test_services_share_the_callers_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They run in the checkout, where a relative folder would be another one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BIDAFLOW_ROOT", "runs")
    monkeypatch.setenv("BIDAFLOW_MIRROR", "data")
    environment = command_environment()
    assert environment["BIDAFLOW_ROOT"] == str(tmp_path.resolve() / "runs")
    assert environment["BIDAFLOW_MIRROR"] == str(tmp_path.resolve() / "data")
