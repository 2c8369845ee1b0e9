"""Flow `check`: read a dataset as training would, and report on it without training."""

import sys
from pathlib import Path
from typing import Any

from prefect import flow
from rich.table import Column, Table
from rich.text import Text

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
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
    """Print the findings; the exit status is 1 if the data can't be trained on."""
    invalid = summary["broken"]
    rejected = [
        f"{name}: more rejected questions than data.max_rejected allows" for name in summary["over"]
    ]
    show(
        _counts(summary),
        *(Text.assemble(("Invalid", "red"), f"    {error}") for error in invalid),
        *(Text.assemble(("Rejected", "red"), f"   {message}") for message in rejected),
        f"Report     {summary['report']}",
    )
    sys.exit(bool(invalid or rejected))


def _counts(summary: dict[str, Any]) -> Table:
    totals = summary["totals"]
    counted = ("questions", "impossible", "exact", "widened", "repaired", "dropped")
    rows = [
        *((key, f"{totals[key]:,}") for key in counted),
        *((f"  {ERROR_DESCRIPTIONS[kind]}", f"{n:,}") for kind, n in summary["faults"].items()),
        ("best possible EM / F1", f"{totals['oracle_em']:.2f} / {totals['oracle_f1']:.2f}"),
    ]
    return table(("", Column("questions", justify="right")), rows, title="Data check")


command = flow_command(check, announce, positional="--data.dataset")
