"""Show two runs' answers to the same questions side by side where they differ."""

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.common.results import publish_page
from infra.artifacts.manifest import stages_folder
from infra.errors import UserError
from infra.settings import settings
from tasks.reports.diff import Comparison, ScoredRun, write_differences
from tasks.tracking.lineage import (
    FinishedStage,
    find_runs,
    finished_stages,
    parent_with_digest,
    required_stage,
)
from tasks.tracking.run_records import RecordedRun, recorded_runs

RunName = Annotated[
    str, Parameter(help="MLflow run id or name, or model version or alias.", show_default=False)
]


def diff(first: RunName, second: RunName, /) -> None:
    """Compare the answers of two runs, for example `bidaf-tiny/1` and `champion`."""
    print_comparison(*compare_runs(first, second))


def compare_runs(first: str, second: str) -> tuple[Comparison, Path]:
    """The comparison of two runs, and the path of its page.

    Raises:
        UserError: a name is unknown or ambiguous, or the runs answered different questions.
    """
    runs, stages = recorded_runs(settings().tracking_uri), finished_stages(stages_folder())
    one, other = (_scored_run(stages, _find_run(runs, name)) for name in (first, second))
    with TemporaryDirectory() as folder:
        page = Path(folder) / "differences.html"
        comparison = write_differences(page, one, other)
        return comparison, publish_page(page, f"differences-{_slug(f'{first}-{second}')}.html")


def _find_run(runs: list[RecordedRun], name: str) -> RecordedRun:
    matches = find_runs(runs, name)
    if len(matches) > 1:
        listed = ", ".join(f"{run.name} {run.id}" for run in matches)
        raise UserError(
            f"{name} matches {len(matches)} runs ({listed}). Give the id of one of them."
        )
    return matches[0]


def _scored_run(stages: Mapping[str, FinishedStage], run: RecordedRun) -> ScoredRun:
    trained = required_stage(stages, run)
    model = next(iter(run.models), run.id[:8])
    evaluation = parent_with_digest(stages, trained, run.digests["dev.digest"])
    return ScoredRun(f"{run.name} ({model})", trained.folder, evaluation.folder)


def _slug(text: str) -> str:
    return re.sub(r"[^\w.@-]+", "-", text)


def print_comparison(comparison: Comparison, page: Path) -> None:
    """Print how many answers changed, the gain in F1, and the path of the page."""
    gain = comparison.gain
    table = Table("", "questions", "answers differ")
    for change in comparison.changes:
        table.add_row(escape(change.name), f"{change.questions:,}", f"{change.different:,}")
    console = Console()
    console.print("", table, "")
    console.print(f"F1         {gain.mean:+.2f}, 95 % CI {gain.low:+.2f} to {gain.high:+.2f}")
    console.print(f"Page       {page}", soft_wrap=True, highlight=False)
