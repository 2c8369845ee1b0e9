"""Show two runs' answers to the same questions side by side where they differ."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter

from flows.commands.terminal import show, table
from flows.common.publish import publish_page
from infra.artifacts.remote import ensure_local
from infra.errors import UserError
from tasks.reports.diff import Comparison, ScoredRun, write_differences
from tasks.tracking.lineage import (
    TRAINING_STAGE,
    FinishedStage,
    RecordedRun,
    find_runs,
    finished_stages,
    parent_with_digest,
    recorded_runs,
    required_stage,
)

RunName = Annotated[
    str, Parameter(help="MLflow run id or name, or model version or alias.", show_default=False)
]


def diff(first: RunName, second: RunName, /) -> None:
    """Compare the answers of two runs, for example `bidaf-tiny/1` and `bidaf-tiny@champion`."""
    comparison, page = compare_runs(first, second)
    gain = comparison.gain
    rows = [
        (change.name, f"{change.questions:,}", f"{change.different:,}")
        for change in comparison.changes
    ]
    show(
        table(("", "questions", "answers differ"), rows),
        f"F1         {gain.mean:+.2f}, 95 % CI {gain.low:+.2f} to {gain.high:+.2f}",
        f"Page       {page}",
    )


def compare_runs(first: str, second: str) -> tuple[Comparison, Path]:
    """The comparison of two runs, and the path of its page.

    Raises:
        UserError: a name is unknown or ambiguous, or the runs answered different questions.
    """
    runs, stages = recorded_runs(), finished_stages()
    one, other = (scored_run(stages, runs, name) for name in (first, second))
    with TemporaryDirectory() as folder:
        page = Path(folder) / "differences.html"
        comparison = write_differences(page, one, other)
        names = re.sub(r"[^\w.@-]+", "-", f"{first}-{second}")
        return comparison, publish_page(page, f"differences-{names}.html")


def scored_run(
    stages: Mapping[str, FinishedStage], runs: list[RecordedRun], name: str
) -> ScoredRun:
    """The run that a name refers to, with its answers.

    Raises:
        UserError: the name is unknown or ambiguous, the run is not that of a variant, or its files
            are gone.
    """
    run = only_run(runs, name)
    trained = required_stage(stages, run)
    if (kind := trained.folder.parent.name) not in (TRAINING_STAGE, "ensemble"):
        raise UserError(
            f"{name} is a run of {kind}, which answers no questions. Give the run of a variant, or "
            "a model."
        )
    model = next(iter(run.models), run.id[:8])
    evaluation = parent_with_digest(stages, trained, run.digests["dev.digest"])
    for stage in (trained, evaluation):
        ensure_local(stage.folder)
    return ScoredRun(f"{run.name} ({model})", trained.folder, evaluation.folder)


def only_run(runs: Sequence[RecordedRun], name: str) -> RecordedRun:
    """The variant run that a name refers to.

    Raises:
        UserError: the name is unknown or ambiguous.
    """
    matches = find_runs(runs, name)
    if len(matches) > 1:
        listed = ", ".join(f"{run.name} {run.id}" for run in matches)
        models = [model for run in matches for model in run.models]
        # An alias, such as champion, is unambiguous with its model.
        example = next((model for model in models if model.endswith(f"@{name}")), None)
        or_model = f", or for example {example}" if example else ""
        raise UserError(
            f"{name} matches {len(matches)} runs ({listed}). Give the id of one of them{or_model}."
        )
    return matches[0]
