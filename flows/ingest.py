"""Flow `ingest`: convert SQuAD-format data to Parquet, with a ledger of every question."""

from pathlib import Path
from typing import Any

from prefect import flow
from rich.console import Console
from rich.table import Table

from flows.commands.flow_command import flow_command
from flows.common.parameters import DataParameters
from flows.common.splits import ingest_dataset
from flows.common.user_errors import report_user_errors


@flow(name="ingest", description=__doc__)
@report_user_errors
def ingest(data: DataParameters = DataParameters()) -> dict[str, dict[str, Any]]:
    """Ingest a dataset, and return the folder of each split and the facts about it."""
    splits = ingest_dataset(data)
    outputs = {"train": splits.train, "validation": splits.validation, "dev": splits.dev}
    return {
        name: {"folder": str(output.folder), **output.facts}
        for name, output in outputs.items()
        if output is not None
    }


def announce(splits: dict[str, dict[str, Any]]) -> None:
    """Print the size and the folder of each split."""
    table = Table("split", "questions", "contexts")
    for name, facts in splits.items():
        table.add_row(name, f"{facts['questions']:,}", f"{facts['contexts']:,}")
    console = Console()
    console.print("", table, "")
    for name, facts in splits.items():
        console.print(f"{name:10} {Path(facts['folder'])}", soft_wrap=True, highlight=False)


command = flow_command(ingest, announce)
