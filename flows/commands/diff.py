"""Show two runs' answers to the same questions side by side where they differ.

python -m flows.commands.diff bidaf-tiny/1,champion
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

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


def compare_runs(pair: str) -> tuple[Comparison, Path]:
    """The comparison of two runs, named with a comma between them, and the path of its page.

    Raises:
        UserError: `pair` does not name exactly two runs, a name is unknown or ambiguous, or the
            runs answered different questions.
    """
    names = pair.split(",")
    if len(names) != 2:
        raise UserError(f"RUNS={pair} names {len(names)} run(s), expected two: RUNS=first,second.")
    runs, stages = recorded_runs(settings().tracking_uri), finished_stages(stages_folder())
    first, second = (_scored_run(stages, _find_run(runs, name.strip())) for name in names)
    with TemporaryDirectory() as folder:
        page = Path(folder) / "differences.html"
        comparison = write_differences(page, first, second)
        return comparison, publish_page(page, f"differences-{_slug(pair)}.html")


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


if __name__ == "__main__":
    try:
        print_comparison(*compare_runs(",".join(sys.argv[1:])))
    except UserError as error:
        sys.exit(str(error))
