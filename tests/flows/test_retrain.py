"""The beginning and the end of a retraining: missing vectors, and the removal of old runs."""

from pathlib import Path

import pytest
from prefect import flow

from flows.common.parameters import DataParameters, VectorParameters
from flows.retrain import remove_old_runs, retrain
from infra.artifacts.stage import result_of
from infra.errors import UserError
from tests.factories.cli import write_dataset
from tests.factories.ports import free_port


@pytest.mark.heavy
@pytest.mark.usefixtures("prefect_server", "root")
def test_missing_vectors_are_named(tmp_path: Path) -> None:
    data = DataParameters(dataset=str(write_dataset(tmp_path / "own", 2, 1, 3)))
    vectors = VectorParameters(source="gone.txt")
    with pytest.raises(UserError, match=r"gone\.txt"):
        result_of(retrain(data, vectors=vectors, return_state=True))


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
