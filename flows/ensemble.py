"""Flow `ensemble`: join trained models into one, and promote it if it beats the champion."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field
from rich.table import Column

from flows.commands.diff import only_run
from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.data import Splits
from flows.common.failures import STATE_HOOKS, report_user_errors
from flows.common.parameters import DataParameters, NonEmpty
from flows.common.promote import emit_decision, promote_best
from infra.artifacts.manifest import facts_of
from infra.artifacts.remote import ensure_local
from infra.artifacts.stage import Output
from infra.errors import UserError
from tasks.evaluation.promotion_rule import PromotionRule
from tasks.stages import ensemble_stage
from tasks.tracking import runs
from tasks.tracking.lineage import (
    TRAINING_STAGE,
    FinishedStage,
    RecordedRun,
    finished_stages,
    parent_with_digest,
    recorded_runs,
    required_stage,
)

PARTS = ("train", "validation", "dev")
SHOWN_SCORES = {"validation/f1": "validation F1", "dev/em": "EM", "dev/f1": "F1"}


@flow(name="ensemble", description=__doc__, **STATE_HOOKS)
@report_user_errors
def ensemble(
    members: Annotated[
        list[NonEmpty],
        Field(
            min_length=2,
            max_length=5,
            description="Runs in MLflow, by id, name, model version or alias, of variants that "
            "were trained on the same data.",
        ),
    ],
    promotion: PromotionRule = PromotionRule(),
) -> dict[str, Any]:
    """Join trained models into one registered model that answers by the mean of their
    probabilities, and promote it if it beats the champion.

    Returns its scores beside those of its members, and the decision.
    """
    splits, trained = find_members(members)
    joined = ensemble_stage(splits.name, [own.folder for own in trained], splits.folders)
    result = promote_best(splits, [joined], promotion)
    url = joined.facts["run_url"]
    runs.finish(runs.parent_run_of(splits.name), "FINISHED")
    emit_decision(result, splits.name, url, url)
    rows = _rows([*trained, joined], joined)
    create_table_artifact(rows, key="ensemble", description=result.sentence)
    return {
        "dataset": splits.name,
        "rows": rows,
        "decision": result.sentence,
        "model": joined.facts["model_uri"],
        "run_url": url,
    }


def find_members(names: Sequence[str]) -> tuple[Splits, list[Output]]:
    """The splits that all runs were trained on, and what they trained.

    Raises:
        UserError: a name is unknown or ambiguous, a run trained no variant or is named twice, its
            files are gone, or the runs were trained on different data.
    """
    known, stages = recorded_runs(), finished_stages()
    found = [only_run(known, name) for name in names]
    trained = [_training(stages, run, name) for run, name in zip(found, names, strict=True)]
    if len({stage.name for stage in trained}) < len(names):
        raise UserError("Two members are the same run. Name each run once.")
    require_same_data(found, names)
    first = found[0]
    parents = {
        part: parent_with_digest(stages, trained[0], first.digests[f"{part}.digest"])
        for part in PARTS
        if f"{part}.digest" in first.digests
    }
    name = first.experiment.removeprefix("bidaflow/")
    outputs = {part: _output(stage) for part, stage in parents.items()}
    splits = Splits(
        DataParameters(dataset=name),
        name,
        outputs["train"],
        outputs.get("validation"),
        outputs["dev"],
    )
    return splits, [_output(stage) for stage in trained]


def _training(stages: Mapping[str, FinishedStage], run: RecordedRun, name: str) -> FinishedStage:
    stage = required_stage(stages, run)
    if (kind := stage.folder.parent.name) != TRAINING_STAGE:
        raise UserError(f"{name} is a run of {kind}. Name runs that trained a variant.")
    return stage


def require_same_data(found: Sequence[RecordedRun], names: Sequence[str]) -> None:
    """Check that all runs, which messages call by these names, had the same data.

    Raises:
        UserError: some had other questions, or the same ones with other tokens.
    """
    first = found[0]
    for run, name in zip(found[1:], names[1:], strict=True):
        for part in PARTS:
            digest = f"{part}.digest"
            if run.digests.get(digest) != first.digests.get(digest):
                raise UserError(
                    f"{names[0]} and {name} were trained on different data: their {part} questions "
                    "or the tokens of these differ. Choose runs with equal settings of the group "
                    "data."
                )


def _output(stage: FinishedStage) -> Output:
    ensure_local(stage.folder)
    return Output(stage.folder, facts_of(stage.folder), cached=True)


def _rows(models: Sequence[Output], joined: Output) -> list[dict[str, str]]:
    """The scores of each member and of the ensemble, which comes last, with its cost."""
    costs = zip(joined.facts["milliseconds"], joined.facts["bytes"], strict=True)
    return [
        {
            "model": "ensemble" if model is joined else model.facts["variant"],
            **{
                title: f"{model.facts['scores'][score]:.2f}"
                for score, title in SHOWN_SCORES.items()
                if score in model.facts["scores"]
            },
            "ms": f"{milliseconds:.1f}",
            "MB": f"{size / 1e6:.1f}",
        }
        for model, (milliseconds, size) in zip(models, costs, strict=True)
    ]


def announce(summary: Mapping[str, Any]) -> None:
    """Print the scores, the decision, and where the model is."""
    first, *others = summary["rows"][0]
    columns = [Column(first), *(Column(name, justify="right") for name in others)]
    rows = [list(row.values()) for row in summary["rows"]]
    show(
        table(columns, rows, title=f"{summary['dataset']}: scores, ms a question, size"),
        f"Promotion  {summary['decision']}",
        f"Model      {summary['model']}",
        f"MLflow     {summary['run_url']}",
    )


command = flow_command(ensemble, announce, positional="members")
