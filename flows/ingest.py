"""Flow `ingest`: convert SQuAD-format data to Parquet, with a ledger of every question."""

from typing import Any

from prefect import flow

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.data import ingest_dataset
from flows.common.failures import report_user_errors
from flows.common.parameters import DataParameters
from infra.artifacts.manifest import facts_of


@flow(name="ingest", description=__doc__)
@report_user_errors
def ingest(data: DataParameters) -> dict[str, dict[str, Any]]:
    """Ingest a dataset, and return the folder of each split and the facts about it."""
    splits = ingest_dataset(data)
    return {
        name: {"folder": str(folder), **facts_of(folder)} for name, folder in splits.folders.items()
    }


def announce(splits: dict[str, dict[str, Any]]) -> None:
    """Print the size and the folder of each split."""
    rows = [
        (name, f"{facts['questions']:,}", f"{facts['contexts']:,}")
        for name, facts in splits.items()
    ]
    show(
        table(("split", "questions", "contexts"), rows),
        *(f"{name:10} {facts['folder']}" for name, facts in splits.items()),
    )


command = flow_command(ingest, announce, data=DataParameters())
