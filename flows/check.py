"""Flow `check`: read a dataset as training would, and report on it without training."""

import sys
from pathlib import Path
from typing import Any

from prefect import flow
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.flow_command import flow_command
from flows.common.data_files import find_files
from flows.common.parameters import DataParameters, VectorParameters
from flows.common.results import publish_page
from flows.common.user_errors import report_user_errors
from flows.common.vectors import resolve_vectors
from infra.errors import UserError
from tasks.data.answer_errors import ERROR_DESCRIPTIONS
from tasks.reports.data_report import CheckedFiles
from tasks.stages import checking, ingesting, selecting_vectors


@flow(name="check", description=__doc__)
@report_user_errors
def check(
    data: DataParameters = DataParameters(), vectors: VectorParameters = VectorParameters()
) -> dict[str, Any]:
    """Check every file of a dataset, and return the findings and the path of the report."""
    files = find_files(data)
    checked = _ingest_all(list(dict.fromkeys(files.all)), data.repair)
    folders = list(checked.ingested.values())
    selected = (
        selecting_vectors(resolve_vectors(vectors), folders, True, 0).folder if folders else None
    )
    findings = checking(files.name, checked, selected, data.max_rejected)
    report = publish_page(findings.folder / "report.html", f"check-{files.name}.html")
    return {
        **findings.facts,
        "broken": [error for _, error in checked.broken],
        "report": str(report),
    }


def _ingest_all(files: list[Path], repair: bool) -> CheckedFiles:
    """Ingest each file, however many of its questions are rejected."""
    ingested: dict[str, Path] = {}
    broken: list[tuple[str, str]] = []
    for file in files:
        name = file.name if file.name not in ingested else str(file)
        try:
            ingested[name] = ingesting(file, repair).folder
        except UserError as error:
            broken.append((name, str(error)))
    return CheckedFiles(ingested, broken)


def announce(summary: dict[str, Any]) -> None:
    """Print the findings and the path of the report."""
    console = Console()
    console.print("", _counts(summary), "")
    for error in summary["broken"]:
        console.print(f"[red]Invalid[/]    {escape(error)}", soft_wrap=True, highlight=False)
    for name in summary["over"]:
        message = f"{name}: more rejected questions than data.max_rejected allows"
        console.print(f"[red]Rejected[/]   {escape(message)}", soft_wrap=True, highlight=False)
    console.print(f"Report     {escape(summary['report'])}", soft_wrap=True, highlight=False)


def _counts(summary: dict[str, Any]) -> Table:
    totals = summary["totals"]
    table = Table("", "questions", title="Data check")
    table.columns[1].justify = "right"
    for key in ("questions", "impossible", "exact", "widened", "repaired", "dropped"):
        table.add_row(key, f"{totals[key]:,}")
    for kind, count in summary["faults"].items():
        table.add_row(f"  {ERROR_DESCRIPTIONS[kind]}", f"{count:,}")
    table.add_row("best possible EM / F1", f"{totals['oracle_em']:.2f} / {totals['oracle_f1']:.2f}")
    return table


def announce_and_exit(summary: dict[str, Any]) -> None:
    """Print the findings; the exit status is 1 if the data can't be trained on."""
    announce(summary)
    sys.exit(bool(summary["broken"] or summary["over"]))


command = flow_command(check, announce_and_exit, positional="--data.dataset")
