"""The end of a retraining: the removal of old runs."""

import pytest
from prefect import flow

from flows.retrain import remove_old_runs
from tests.factories.ports import free_port


@flow
def removing() -> str:
    remove_old_runs("own")
    return "published"


@pytest.mark.usefixtures("prefect_server", "root")
def test_failed_removal_of_old_runs_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", server)
    assert removing() == "published"
    reason = f"Old runs of own were not all removed: No MLflow server responds at {server}."
    (warning,) = [r for r in caplog.records if r.message.startswith(reason)]
    assert warning.levelname == "WARNING"
