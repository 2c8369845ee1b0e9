"""Flow `ingest`: convert SQuAD-format data to Parquet, with a ledger of every question."""

from typing import Any

from prefect import flow

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
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
    rows = [
        (name, f"{facts['questions']:,}", f"{facts['contexts']:,}")
        for name, facts in splits.items()
    ]
    lines = [f"{name:10} {facts['folder']}" for name, facts in splits.items()]
    show(table(("split", "questions", "contexts"), rows), *lines)


command = flow_command(ingest, announce)
