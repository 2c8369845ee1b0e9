"""What becomes of a flow run's MLflow runs where it does not end by itself."""

from typing import Any, TypedDict

from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import FlowStateHook

from infra.settings import settings
from tasks import tracking

Hook = FlowStateHook[Any, Any]


class Hooks(TypedDict):
    """The hooks of a flow that trains."""

    on_failure: list[Hook]
    on_crashed: list[Hook]
    on_cancellation: list[Hook]


def _end_runs_as(status: tracking.Status) -> Hook:
    """A hook that ends the MLflow runs which a flow run has left open."""

    def hook(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
        tracking.finish_flow_run(settings().tracking_uri, str(flow_run.id), status)

    return hook


ENDING_RUNS = Hooks(
    on_failure=[_end_runs_as("FAILED")],
    on_crashed=[_end_runs_as("KILLED")],
    on_cancellation=[_end_runs_as("KILLED")],
)
