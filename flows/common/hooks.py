"""What becomes of a flow run's MLflow runs where it does not end by itself."""

from typing import Any, TypedDict

from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import FlowStateHook

from infra.settings import settings
from tasks.tracking import runs
from tasks.tracking.orphaned_runs import end_rest_of

Hook = FlowStateHook[Any, Any]


class Hooks(TypedDict):
    """The hooks of a flow that trains."""

    on_failure: list[Hook]
    on_crashed: list[Hook]
    on_cancellation: list[Hook]


def _fail_runs(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """A flow that failed has come to its end by itself; its MLflow runs have failed with it."""
    runs.finish_flow_run(settings().tracking_uri, str(flow_run.id), "FAILED")


def _end_rest(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """The flow's process is gone or about to: its MLflow runs and Ray's processes are ended."""
    end_rest_of(str(flow_run.id))


ENDING_RUNS = Hooks(
    on_failure=[_fail_runs],
    on_crashed=[_end_rest],
    on_cancellation=[_end_rest],
)
