"""Ends the MLflow runs of flow runs whose machine was lost, such as a node with a flow's pod.

Their notes (see `orphaned_runs`) were lost with the machine. If the root is an address, which
machines share, each flow looks for such runs when it starts: Prefect's server says which flow runs
have ended.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun

from infra.errors import UserError
from infra.run_logger import logger
from infra.settings import settings
from tasks.tracking.client import denied, reading_client
from tasks.tracking.runs import finish_flow_run

FLOW_RUN = "prefect.flow_run_id"  # tag of a run
# A flow run that has just ended may still be ending its MLflow runs.
SETTLED = timedelta(minutes=10)


def end_lost_runs() -> list[str]:
    """End the MLflow runs of flow runs that Prefect's server says have ended. Returns the ids of
    these flow runs.

    Flow runs of another Prefect server are left alone, and so are MLflow runs that the user may not
    change. If MLflow does not respond, all are.
    """
    lost = [
        run for run in _flow_runs(_ids_of_running(settings().tracking_uri)) if _has_settled(run)
    ]
    return [str(run.id) for run in lost if _end_if_allowed(run)]


def _end_if_allowed(run: FlowRun) -> bool:
    """End the MLflow runs of a flow run. Returns whether the user is allowed to."""
    try:
        finish_flow_run(settings().tracking_uri, str(run.id), "KILLED")
    except Exception as error:
        if denied(error) is None:
            raise
        return False
    logger().info(f"Ended the MLflow runs of the flow run {run.name}, which was lost.")
    return True


def _ids_of_running(uri: str) -> list[UUID]:
    """The ids of the flow runs that have MLflow runs in progress."""
    try:
        client = reading_client(uri)
    except UserError:  # the next flow looks again
        return []
    if client is None:
        return []
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    running = (
        client.search_runs(experiments, "attributes.status = 'RUNNING'") if experiments else []
    )
    return sorted({UUID(run.data.tags[FLOW_RUN]) for run in running if FLOW_RUN in run.data.tags})


def _flow_runs(ids: list[UUID]) -> list[FlowRun]:
    """Those of the flow runs that Prefect's server has in a final state."""
    if not ids:
        return []
    wanted = {"id": {"any_": ids}, "state": {"type": {"any_": list(TERMINAL_STATES)}}}
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(wanted))


def _has_settled(run: FlowRun) -> bool:
    return run.end_time is not None and datetime.now(UTC) - run.end_time > SETTLED
