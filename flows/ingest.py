"""Flow `ingest`: convert SQuAD-format data to Parquet, with a ledger of every question."""

from prefect import flow

from flows.common.parameters import DataParameters
from flows.common.splits import ingest_dataset
from flows.common.user_errors import report_user_errors


@flow(name="ingest", description=__doc__)
@report_user_errors
def ingest(data: DataParameters = DataParameters()) -> dict[str, dict[str, object]]:
    """Ingest a dataset, and return the facts about its splits."""
    splits = ingest_dataset(data)
    outputs = {"train": splits.train, "validation": splits.validation, "dev": splits.dev}
    return {name: output.facts for name, output in outputs.items() if output is not None}
