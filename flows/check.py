"""Flow `check`: read a dataset as training would, and report on it without training."""

import sys
from pathlib import Path
from typing import Any

from prefect import flow
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.common.cli import parameters_from
from flows.common.data_files import find_files
from flows.common.parameters import DataParameters, VectorParameters
from flows.common.results import publish_page
from flows.common.user_errors import result_or_exit, told_in_a_sentence
from flows.common.vectors import vectors_of
from infra.errors import UserError
from tasks.data.answer_errors import MEANINGS
from tasks.stages import checking, ingesting, selecting_vectors


@flow(name="check", description=__doc__)
@told_in_a_sentence
def check(
    data: DataParameters = DataParameters(), vectors: VectorParameters = VectorParameters()
) -> dict[str, Any]:
    """Check every file of a dataset, and return the findings and the path of the report."""
    files = find_files(data)
    every = [*files.train, *files.dev, *(file for part, _ in files.mixed for file in part)]
    ingested, broken = _ingest_all(list(dict.fromkeys(every)), data.repair)
    folders = list(ingested.values())
    picked = selecting_vectors(vectors_of(vectors), folders, True, 0).folder if folders else None
    made = checking(files.name, ingested, broken, picked, data.max_rejected)
    place = publish_page(made.folder / "report.html", f"check-{files.name}.html")
    return {**made.facts, "broken": [sentence for _, sentence in broken], "report": str(place)}


def _ingest_all(files: list[Path], repair: bool) -> tuple[dict[str, Path], list[tuple[str, str]]]:
    """Ingest each file, however many of its questions are rejected.

    Returns the stage folders by file name, and the name and error of each file that fails.
    """
    ingested: dict[str, Path] = {}
    broken: list[tuple[str, str]] = []
    for file in files:
        name = file.name if file.name not in ingested else str(file)
        try:
            ingested[name] = ingesting(file, repair).folder
        except UserError as error:
            broken.append((name, str(error)))
    return ingested, broken


def announce(summary: dict[str, Any]) -> None:
    """Print the findings and the path of the report."""
    console = Console()
    console.print("", _counts(summary), "")
    for sentence in summary["broken"]:
        console.print(f"[red]broken[/]     {escape(sentence)}", soft_wrap=True, highlight=False)
    for name in summary["over"]:
        console.print(f"[red]too many[/]   {escape(name)}: more rejected than allowed")
    console.print(f"Report     {escape(summary['report'])}", soft_wrap=True, highlight=False)


def _counts(summary: dict[str, Any]) -> Table:
    totals = summary["totals"]
    table = Table("", "questions", title="Check of the data")
    table.columns[1].justify = "right"
    for key in ("questions", "impossible", "exact", "widened", "repaired", "dropped"):
        table.add_row(key, f"{totals[key]:,}")
    for kind, count in summary["faults"].items():
        table.add_row(f"  {MEANINGS[kind]}", f"{count:,}")
    table.add_row("best possible EM / F1", f"{totals['oracle_em']:.2f} / {totals['oracle_f1']:.2f}")
    return table


if __name__ == "__main__":
    found = result_or_exit(check(**parameters_from(sys.argv[1:], check), return_state=True))
    announce(found)
    sys.exit(bool(found["broken"] or found["over"]))
