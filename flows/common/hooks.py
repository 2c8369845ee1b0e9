"""Prefect hooks that end a flow run's MLflow runs if it fails, crashes or is cancelled."""

from typing import Any

from prefect.client.schemas.objects import FlowRun, State

from infra.settings import settings
from tasks.tracking import runs
from tasks.tracking.orphaned_runs import end_orphaned_run


def _fail_runs(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Mark the flow's MLflow runs as failed; the flow ended by itself, so no process is left."""
    runs.finish_flow_run(settings().tracking_uri, str(flow_run.id), "FAILED")


def _end_runs_and_processes(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """End the MLflow runs and Ray processes of a flow whose process is gone or about to go."""
    end_orphaned_run(str(flow_run.id))


# The state hooks of a flow that trains.
CLEANUP_HOOKS: dict[str, Any] = {
    "on_failure": [_fail_runs],
    "on_crashed": [_end_runs_and_processes],
    "on_cancellation": [_end_runs_and_processes],
}
