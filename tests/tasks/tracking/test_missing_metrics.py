"""Metrics that a training could not send, or that its new run lacks."""

from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from infra.errors import UserError
from tasks.tracking import runs
from tasks.tracking.missing_metrics import send_missing

HISTORY: list[dict[str, Any]] = [
    {"epoch": 1, "step": 9, "train/nll": 4.0, "dev/f1": 60.0},
    {"epoch": 2, "step": 18, "train/nll": 3.0, "dev/f1": 50.0},
]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/mlflow.db"


@pytest.fixture
def run_id(uri: str) -> str:
    return runs.parent_run(uri, "bidaflow/made", "flow", None, "made", {})


def test_last_epoch_is_sent_after_an_outage(uri: str, run_id: str) -> None:
    runs.log_scores(uri, run_id, {"dev/f1": 60.0}, step=9)
    send_missing(uri, run_id, [["dev/f1", 50.0, 1_000, 18]], [], "dev/f1")
    assert MlflowClient(uri).get_run(run_id).data.metrics == {"dev/f1": 50.0}


def test_new_run_of_a_resumed_training_has_all_epochs(uri: str, run_id: str) -> None:
    second = {name: value for name, value in HISTORY[1].items() if name != "step"}
    runs.log_scores(uri, run_id, second, step=18)
    send_missing(uri, run_id, [], HISTORY, "dev/f1")
    client = MlflowClient(uri)
    for name in second:
        points = client.get_metric_history(run_id, name)
        shown = sorted((point.step, point.value) for point in points)
        assert shown == [(entry["step"], entry[name]) for entry in HISTORY]


def test_deleted_run_is_named(uri: str, run_id: str) -> None:
    runs.require_kept(uri, run_id)
    MlflowClient(uri).delete_run(run_id)
    with pytest.raises(UserError, match="was deleted during its training"):
        runs.require_kept(uri, run_id)
