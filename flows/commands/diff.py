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
from tasks.reports.diff import Comparison, Scored, write_differences
from tasks.tracking.lineage import Made, all_made, find_runs, made_of, required_stage
from tasks.tracking.run_records import RecordedRun, recorded_runs


def differences(asked: str) -> tuple[Comparison, Path]:
    """The comparison of two runs, named with a comma between them, and the path of its page.

    Raises:
        UserError: `asked` does not name exactly two runs, a name is unknown or ambiguous, or the
            runs answered different questions.
    """
    names = asked.split(",")
    if len(names) != 2:
        raise UserError(f"RUNS={asked} names {len(names)} of the two runs: RUNS=one,other.")
    runs, made = recorded_runs(settings().tracking_uri), all_made(stages_folder())
    first, second = (_scored(made, _one_run(runs, name.strip())) for name in names)
    with TemporaryDirectory() as folder:
        page = Path(folder) / "differences.html"
        comparison = write_differences(page, first, second)
        return comparison, publish_page(page, f"differences-{_slug(asked)}.html")


def _one_run(runs: list[RecordedRun], name: str) -> RecordedRun:
    found = find_runs(runs, name)
    if len(found) > 1:
        told = ", ".join(f"{run.name} {run.id}" for run in found)
        raise UserError(f"{name} stands for {len(found)} runs ({told}): name one of them.")
    return found[0]


def _scored(made: Mapping[str, Made], run: RecordedRun) -> Scored:
    trained = required_stage(made, run)
    model = next(iter(run.models), run.id[:8])
    evaluation = made_of(made, trained, run.digests["dev.digest"])
    return Scored(f"{run.name} ({model})", trained.folder, evaluation.folder)


def _slug(asked: str) -> str:
    return re.sub(r"[^\w.@-]+", "-", asked)


def announce(comparison: Comparison, page: Path) -> None:
    """Print the outcomes and the path of the page."""
    gain = comparison.gain
    table = Table("", "questions", "answers differ")
    for outcome in comparison.outcomes:
        table.add_row(escape(outcome.name), f"{outcome.questions:,}", f"{outcome.different:,}")
    console = Console()
    console.print("", table, "")
    console.print(f"F1         {gain.mean:+.2f}, 95 % {gain.low:+.2f} to {gain.high:+.2f}")
    console.print(f"Page       {page}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    try:
        announce(*differences(",".join(sys.argv[1:])))
    except UserError as error:
        sys.exit(str(error))
