"""Sends epoch metrics and system metrics to MLflow runs, also those that a run lacks at its end."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from infra.masking import mask_secrets
from infra.settings import settings
from tasks.tracking.client import client_of

# MLflow is imported locally, because it takes a second to load.

# Number of optimisation steps averaged into one point of the curve `train/batch_nll`.
STEPS_PER_POINT = 10

METRICS_PER_CALL = 1000  # MLflow's own limit


@dataclass(frozen=True)
class EpochLogger:
    """Sends training metrics to a run, one call per epoch, from any machine that reaches `uri`.

    Every metric's step is the optimisation step, so that all curves share one axis. `nlls` and
    `unsent` hold values still to be sent. Both are updated in place, so that a checkpoint can
    include unsent values.
    """

    uri: str
    run_id: str
    nlls: list[float] = field(default_factory=list)
    unsent: list[list[Any]] = field(default_factory=list)  # [name, value, milliseconds, step]

    def step(self, step: int, nll: float) -> None:
        """Record the loss (nats) of one optimisation step."""
        self.nlls.append(nll)
        if len(self.nlls) == STEPS_PER_POINT:
            self._add(step, {"train/batch_nll": sum(self.nlls) / STEPS_PER_POINT})
            self.nlls.clear()

    def epoch(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send an epoch's metrics at optimisation step `step`, and all points not sent yet.

        MLflow retries for two minutes to reach its server. Metrics that it can't send are queued
        for the next call, so that an unavailable server does not end a training.
        """
        from mlflow.exceptions import MlflowException

        self._add(step, metrics)
        try:
            self.send()
        except MlflowException as error:
            reason = mask_secrets(str(error))  # it has the URI
            print(
                f"MLflow did not take {len(self.unsent)} metrics; they are queued ({reason}).",
                flush=True,
            )

    def send(self) -> None:
        """Send all points not sent yet.

        Raises:
            mlflow.exceptions.MlflowException: the server can't be reached, or refuses them.
        """
        from mlflow.entities import Metric

        client = client_of(self.uri)
        while self.unsent:
            points = [Metric(*point) for point in self.unsent[:METRICS_PER_CALL]]
            client.log_batch(self.run_id, metrics=points)
            del self.unsent[:METRICS_PER_CALL]

    def complete(self, history: Sequence[Mapping[str, Any]], name: str) -> None:
        """Send the metrics that a training's run lacks, so that it has the scores of all
        evaluations.

        The worker may not have reached MLflow when it wrote its last checkpoint, which has what it
        had not sent. A run that was created when the training resumed lacks the evaluations before:
        those in `history` at whose steps it has no value of the metric `name`.
        """
        self.send()
        sent = {p.step for p in client_of(self.uri).get_metric_history(self.run_id, name)}
        for entry in history:
            if entry["step"] not in sent:
                self._add(entry["step"], {n: value for n, value in entry.items() if n != "step"})
        self.send()

    def _add(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self.unsent.extend([name, value, now, step] for name, value in metrics.items())


@contextmanager
def system_metrics(run_id: str) -> Iterator[None]:
    """Log this machine's CPU, memory, disk, network and GPU use every 10 s during the block."""
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(
        run_id, resume_logging=True, tracking_uri=settings().tracking_uri
    )
    monitor.start()
    try:
        yield
    finally:
        monitor.finish()
