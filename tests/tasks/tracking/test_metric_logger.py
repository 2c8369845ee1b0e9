"""Metrics that a training could not send, or that its new run lacks."""

from typing import Any

import pytest

from infra.errors import UserError
from infra.settings import settings
from tasks.tracking import runs
from tasks.tracking.client import mlflow_client
from tasks.tracking.metric_logger import EpochLogger
from tests.factories.tracking_store import parent_run

HISTORY: list[dict[str, Any]] = [
    {"epoch": 1, "step": 9, "train/nll": 4.0, "dev/f1": 60.0},
    {"epoch": 2, "step": 18, "train/nll": 3.0, "dev/f1": 50.0},
]


@pytest.fixture
def run_id(root: None) -> str:
    return parent_run("flow")


def complete(run_id: str, history: list[dict[str, Any]], *unsent: list[Any]) -> None:
    EpochLogger(settings().tracking_uri, run_id, unsent=[*unsent]).complete(history, "dev/f1")


def test_last_epoch_is_sent_after_an_outage(run_id: str) -> None:
    runs.log_scores(run_id, {"dev/f1": 60.0}, step=9)
    complete(run_id, [], ["dev/f1", 50.0, 1_000, 18])
    assert mlflow_client().get_run(run_id).data.metrics == {"dev/f1": 50.0}


def test_new_run_of_a_resumed_training_has_all_epochs(run_id: str) -> None:
    second = {name: value for name, value in HISTORY[1].items() if name != "step"}
    runs.log_scores(run_id, second, step=18)
    complete(run_id, HISTORY)
    for name in second:
        points = mlflow_client().get_metric_history(run_id, name)
        shown = sorted((point.step, point.value) for point in points)
        assert shown == [(entry["step"], entry[name]) for entry in HISTORY]


def test_deleted_run_is_named(run_id: str) -> None:
    runs.require_kept(run_id)
    mlflow_client().delete_run(run_id)
    with pytest.raises(UserError, match="was deleted during its training"):
        runs.require_kept(run_id)
