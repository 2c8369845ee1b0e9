"""Sends epoch metrics and system metrics to MLflow runs."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from infra.masking import mask_secrets
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

    def _add(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self.unsent.extend([name, value, now, step] for name, value in metrics.items())


@contextmanager
def system_metrics(uri: str, run_id: str) -> Iterator[None]:
    """Log this machine's CPU, memory, disk, network and GPU use every 10 s during the block."""
    client_of(uri)
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=uri)
    monitor.start()
    try:
        yield
    finally:
        monitor.finish()
