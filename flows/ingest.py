"""Flow `ingest`: SQuAD-format data to Parquet, with a ledger of every question."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prefect import flow

from flows.files import find_files
from flows.parameters import DataParameters
from flows.refusals import told_in_a_sentence
from tasks.held_out import Shares, has_validation
from tasks.inputs import HOW_FAR
from tasks.manifests import facts_of
from tasks.portions import Portion
from tasks.read_progress import reading
from tasks.splitting import Apart
from tasks.stages import Output
from tasks.steps import ingesting, splitting


@dataclass(frozen=True)
class Splits:
    """A dataset's name and its ingested splits.

    Choices - when to stop, which threshold, which model - are made on `validation`, which is held
    out of the training files by article; `dev` is only reported.
    """

    name: str
    train: Output
    validation: Output | None
    dev: Output


def ingest_dataset(data: DataParameters) -> Splits:
    """Find the files that are meant, ingest each of them, and divide their articles."""
    files = find_files(data)
    with reading(files.all):
        portions = ingest_each(files.train, data)
        mixed = [
            portion for part, weight in files.mixed for portion in ingest_each(part, data, weight)
        ]
        given = ingest_each(files.dev, data)
    shares = Shares(
        validation=files.validation_share, dev=0 if files.dev else data.dev_share, seed=data.seed
    )
    if given:
        dev = splitting(given)
        apart = Apart(scored=dev.folder, overlap=files.overlap)
    else:
        dev = splitting(portions, "dev", shares)
        apart = Apart(held_out=(dev.folder,))
    validation = None
    if has_validation(sum(facts_of(portion.folder)["articles"] for portion in portions), shares):
        validation = splitting(
            portions, "validation", shares, apart=apart, negatives=data.negatives
        )
        apart = replace(apart, held_out=(*apart.held_out, validation.folder))
    train = splitting(portions, "train", shares, mixed, apart, data.negatives)
    return Splits(files.name, train, validation, dev)


def ingest_each(files: Sequence[Path], data: DataParameters, weight: float = 1.0) -> list[Portion]:
    """Ingest files one by one, so that those which are known already come from the cache."""
    return [Portion(_ingested(file, data).folder, file.name, weight) for file in files]


def _ingested(file: Path, data: DataParameters) -> Output:
    output = ingesting(file, data.repair, data.max_rejected)
    HOW_FAR.get()(file, 1.0)  # whether it was read or came from the cache
    return output


@flow(name="ingest", description=__doc__)
@told_in_a_sentence
def ingest(data: DataParameters = DataParameters()) -> dict[str, dict[str, object]]:
    """Ingest a dataset; returns the facts about its splits."""
    splits = ingest_dataset(data)
    made = {"train": splits.train, "validation": splits.validation, "dev": splits.dev}
    return {name: output.facts for name, output in made.items() if output is not None}
