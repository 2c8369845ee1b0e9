"""A guard against schedules that have lost their parameters."""

from collections.abc import Mapping
from typing import Any

from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext

from infra.errors import UserError

# What a scheduled run must be given, by flow: its default is for trying things out.
REQUIRED = {"retrain": "data", "train": "data", "compare-variants": "data", "ingest": "data"}


def require_parameters_of_schedule() -> None:
    """Refuse a scheduled run that would use the default dataset.

    A schedule can lose its parameters without a trace: the switch that pauses it in Prefect's V2
    pages removes them. Its runs would then train on `tiny`.

    Raises:
        UserError: a schedule has started this run without a dataset.
    """
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None and context.flow is not None:
        check_scheduled_run(context.flow.name, context.flow_run)


def check_scheduled_run(flow: str, run: FlowRun) -> None:
    """Refuse a scheduled run of a flow that trains if its parameters name no dataset.

    Raises:
        UserError: the run has no dataset.
    """
    group = REQUIRED.get(flow)
    if group is None or not run.auto_scheduled or _names_dataset(run.parameters.get(group)):
        return
    raise UserError(
        f"This run was started by a schedule without a dataset ({group}.dataset), so nothing was "
        "trained. Either none has been set, or the schedule has lost its parameters: pausing it in "
        "Prefect's V2 pages removes them. Open the deployment, edit the schedule's parameters, and "
        f"set {group}.dataset. For the generated dataset, set it to tiny."
    )


def _names_dataset(data: Any) -> bool:
    sources = data if isinstance(data, list) else [data]
    return bool(sources) and all(
        source.get("dataset") or source.get("train_files")
        if isinstance(source, Mapping)
        else source
        for source in sources
    )
