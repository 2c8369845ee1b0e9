"""When a flow is refused or fails: one message on a user error, no MLflow run left open."""

import logging
import sys
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from prefect import get_client, get_run_logger
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.runtime import flow_run
from prefect.states import Failed

from flows.common.command_line import command_of_run
from flows.common.parameters import docstring_with_args
from infra.artifacts.in_use import used_by_flow
from infra.artifacts.stage import REFUSED_FLOW, result_of
from infra.errors import RetryableError, UserError, fault_of_machine
from infra.heartbeat import heartbeat
from infra.settings import settings
from infra.storage.root_format import require_format
from infra.storage.store import require_store
from tasks.tracking.client import denied
from tasks.tracking.life_cycle import (
    end_flow_run,
    end_mlflow_runs,
    ending_if_cancelled,
    track_flow_run,
)

P = ParamSpec("P")
R = TypeVar("R")

# Whether the flow is all that its process runs, and `result_or_exit` prints a user error on the
# terminal, so the log need not.
PRINTED_AT_EXIT: ContextVar[bool] = ContextVar("printed_at_exit", default=False)


# What a run of a deployment must be given, by flow: `tiny` is for trying things out in a terminal.
REQUIRED = {"retrain": "data", "train": "data", "compare-variants": "data", "ingest": "data"}


def report_user_errors(body: Callable[P, R]) -> Callable[P, R | State[Any]]:
    """Make a flow's body end as failed, with "Refused: …" as its message, if it raises a UserError,
    or if MLflow does not let the user write, or because of a fault of the machine.

    Neither a refused run nor one that reaches its time limit is retried. One with a RetryableError
    is, but not on a terminal, which shows the message only. The stages that the body uses are
    protected from removal until it ends. Orphaned runs are ended before it starts, and the storage
    root is checked.
    """

    @wraps(body)
    def run(*args: P.args, **kwargs: P.kwargs) -> R | State[Any]:
        try:
            context = FlowRunContext.get()
            if context is not None and context.flow_run is not None:
                check_deployed_run(str(flow_run.flow_name), context.flow_run)
            require_store()
            require_format()
            with (
                track_flow_run(command_of_run()) as is_outermost,
                ending_if_cancelled() if PRINTED_AT_EXIT.get() and is_outermost else nullcontext(),
                used_by_flow(),
                heartbeat(),
            ):
                return body(*args, **kwargs)
        except CancelledError:  # raised by Prefect at the time limit
            _disable_retries()
            raise
        except UserError as error:
            if isinstance(error, RetryableError) and not PRINTED_AT_EXIT.get():
                raise  # Prefect retries after an error, not after a failed state
            return _refused(error)
        except Exception as error:
            if (refusal := denied(error) or fault_of_machine(error)) is None:
                raise
            return _refused(refusal)

    run.__doc__ = docstring_with_args(body)
    return run


def check_deployed_run(flow: str, run: FlowRun) -> None:
    """Refuse a deployment's run of a flow that trains if its parameters name no dataset.

    A schedule can lose its parameters without a trace: the switch that pauses it in Prefect's V2
    pages removes them. Its runs would then train on `tiny`, as would a "Quick run".

    Raises:
        UserError: the run has no dataset.
    """
    if run.deployment_id is None or not lacks_dataset(flow, run.parameters):
        return
    group = REQUIRED[flow]
    origin = (
        "This run was started by a schedule without a dataset "
        f"({group}.dataset), so nothing was trained. Either none has been set, or the schedule has "
        "lost its parameters: pausing it in Prefect's V2 pages removes them. Open the deployment, "
        f"edit the schedule's parameters, and set {group}.dataset."
        if run.auto_scheduled
        else f"This run has no dataset ({group}.dataset), so nothing was trained. Start a custom "
        f"run, and set {group}.dataset."
    )
    raise UserError(f"{origin} For the generated dataset, set it to tiny.")


def lacks_dataset(flow: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the parameters of a deployment's run lack the dataset that its flow requires."""
    data = parameters.get(REQUIRED.get(flow, ""))
    sources = data if isinstance(data, list) and data else [data]
    return flow in REQUIRED and not all(
        source.get("dataset") or source.get("train_files")
        if isinstance(source, Mapping)
        else source
        for source in sources
    )


def _refused(error: UserError) -> State[Any]:
    """Log a user error in Prefect, and on the console unless it is printed there at exit; the state
    of the flow that ends with it."""
    logger = logging.getLogger("prefect.flow_runs")
    logger.propagate = not PRINTED_AT_EXIT.get()  # the console's handler is the root logger's
    try:
        get_run_logger().error(str(error))
    finally:
        logger.propagate = True
    _disable_retries()
    return Failed(message=f"{REFUSED_FLOW}{error}")


def _disable_retries() -> None:
    """Disable a deployment's retries: they are for transient errors, not for ones that recur."""
    context = FlowRunContext.get()
    assert context is not None and context.flow_run is not None
    policy = context.flow_run.empirical_policy
    if policy.retries:
        no_retries = policy.model_copy(update={"retries": 0})
        with get_client(sync_client=True) as client:
            client.update_flow_run(context.flow_run.id, empirical_policy=no_retries)


def result_or_exit(state: State[Any], worded: Callable[[str], str] = str) -> Any:
    """A flow run's result; a refused run ends the process with its error message as `worded`."""
    try:
        return result_of(state)
    except UserError as error:
        sys.exit(f"\n{worded(str(error))}")


def _fail_runs(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Mark the flow's MLflow runs as failed; the flow ended by itself, so no process is left."""
    end_mlflow_runs(str(flow_run.id), "FAILED")


def _end_runs_and_processes(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """End what a flow has left whose process is gone or about to go."""
    end_flow_run(flow_run, state)


# The state hooks of a flow that logs to MLflow.
STATE_HOOKS: dict[str, Any] = {
    "on_failure": [_fail_runs],
    "on_crashed": [_end_runs_and_processes],
    "on_cancellation": [_end_runs_and_processes],
}
# The options of a flow that trains.
TRAINING_FLOW: dict[str, Any] = {
    "timeout_seconds": settings().time_limit_hours * 3600,
    **STATE_HOOKS,
}
