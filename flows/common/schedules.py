"""A guard against runs of deployments that name no dataset."""

from collections.abc import Mapping
from typing import Any

from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext

from infra.errors import UserError

# What a run of a deployment must be given, by flow: `tiny` is for trying things out in a terminal.
REQUIRED = {"retrain": "data", "train": "data", "compare-variants": "data", "ingest": "data"}


def require_parameters_of_deployment() -> None:
    """Refuse a run of a deployment that names no dataset.

    A schedule can lose its parameters without a trace: the switch that pauses it in Prefect's V2
    pages removes them. Its runs would then train on `tiny`, as would a "Quick run".

    Raises:
        UserError: a deployment has started this run without a dataset.
    """
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None and context.flow is not None:
        check_deployed_run(context.flow.name, context.flow_run)


def check_deployed_run(flow: str, run: FlowRun) -> None:
    """Refuse a deployment's run of a flow that trains if its parameters name no dataset.

    Raises:
        UserError: the run has no dataset.
    """
    group = REQUIRED.get(flow)
    if group is None or run.deployment_id is None or _names_dataset(run.parameters.get(group)):
        return
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


def _names_dataset(data: Any) -> bool:
    sources = data if isinstance(data, list) else [data]
    return bool(sources) and all(
        source.get("dataset") or source.get("train_files")
        if isinstance(source, Mapping)
        else source
        for source in sources
    )
