"""Sends metrics to MLflow's runs: of epochs, and of the machine."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tasks.tracking.client import client_of

# MLflow is imported where it is used: it takes a second to load.

STEPS_PER_POINT = 10
"""So many optimisation steps are averaged into one point of the curve `train/batch_nll`."""

METRICS_PER_CALL = 1000  # MLflow's own limit


class EpochLogger:
    """Sends the metrics of training to a run, one call an epoch; works wherever `uri` is reached.

    Every metric's step is the optimisation step, so that all curves share one axis.
    """

    def __init__(
        self,
        uri: str,
        run_id: str,
        nlls: list[float] | None = None,
        waiting: list[list[Any]] | None = None,
    ) -> None:
        """What `nlls` and `waiting` ([name, value, milliseconds, step]) hold is sent later on. Both
        are filled and emptied in place, so that a checkpoint can hold what has not been sent."""
        self.client, self.run_id = client_of(uri), run_id
        self.nlls = [] if nlls is None else nlls
        self.waiting = [] if waiting is None else waiting

    def step(self, step: int, nll: float) -> None:
        """Take note of one optimisation step's loss (nats)."""
        self.nlls.append(nll)
        if len(self.nlls) == STEPS_PER_POINT:
            self._add(step, {"train/batch_nll": sum(self.nlls) / STEPS_PER_POINT})
            self.nlls.clear()

    def epoch(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send an epoch's metrics, and the points since the last, as of optimisation `step`.

        MLflow itself tries for two minutes to reach its server. What it can't send then waits for
        the next call: a training does not end because its log is away.
        """
        from mlflow.exceptions import MlflowException

        self._add(step, metrics)
        try:
            self._send()
        except MlflowException as error:
            print(f"MLflow is away; {len(self.waiting)} metrics wait for it ({error}).", flush=True)

    def _send(self) -> None:
        from mlflow.entities import Metric

        while self.waiting:
            metrics = [Metric(*each) for each in self.waiting[:METRICS_PER_CALL]]
            self.client.log_batch(self.run_id, metrics=metrics)
            del self.waiting[:METRICS_PER_CALL]

    def _add(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self.waiting += [[name, value, now, step] for name, value in metrics.items()]


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
