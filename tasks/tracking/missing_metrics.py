"""Completes the metrics of a training's run at its end."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.tracking import runs
from tasks.tracking.client import client_of
from tasks.tracking.metric_logger import EpochLogger


def send_missing(
    uri: str,
    run_id: str,
    unsent: list[list[Any]],
    history: Sequence[Mapping[str, Any]],
    name: str,
) -> None:
    """Send the metrics that a training's run lacks, so that it has the scores of all evaluations.

    The worker may not have reached MLflow when it wrote its last checkpoint, which has what it had
    not sent. A run that was created when the training resumed lacks the evaluations before: those
    in `history` at whose steps it has no value of the metric `name`.
    """
    EpochLogger(uri, run_id, unsent=unsent).send()
    sent = {point.step for point in client_of(uri).get_metric_history(run_id, name)}
    for entry in history:
        if entry["step"] not in sent:
            scores = {name: value for name, value in entry.items() if name != "step"}
            runs.log_scores(uri, run_id, scores, step=entry["step"])
