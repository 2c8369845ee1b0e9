"""Prefect events about models, to which automations react."""

from prefect.events import emit_event
from prefect.runtime import flow_run

from flows.common.promote import PromotionResult

PROMOTED, REFUSED = "bidaflow.model.promoted", "bidaflow.model.refused"
RESOURCE = "bidaflow.model"


def emit_decision(
    result: PromotionResult, dataset: str, report: str, mlflow_run: str | None
) -> None:
    """Emit whether a model was promoted, with the URLs of the report and of the run in MLflow.

    Prefect adds the flow run, its flow and its deployment. A failure is logged, not raised.
    """
    if result.decision is None:  # an earlier run has emitted it
        return
    model = result.challenger
    emit_event(
        PROMOTED if result.decision.promoted else REFUSED,
        resource={
            "prefect.resource.id": f"{RESOURCE}.{model.name}",
            "prefect.resource.name": f"{model.name} version {model.version}",
        },
        payload={
            "dataset": dataset,
            "model": model.name,
            "version": model.version,
            "variant": model.tags.get("variant"),
            "f1": round(result.f1, 2),
            "decision": result.sentence,
            "report": report,
            "mlflow_run": mlflow_run,
            "flow_run": flow_run.ui_url,
        },
    )
