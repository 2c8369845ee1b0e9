"""Flow `ingest`: SQuAD-format data to Parquet, with a ledger of every question."""

from dataclasses import dataclass
from pathlib import Path

import httpx
from prefect import flow

from flows.parameters import DataParameters
from flows.refusals import told_in_a_sentence
from tasks.catalogue import DATASETS, Source
from tasks.errors import UserError
from tasks.sources import Part, by_split, squad_files
from tasks.stages import Output
from tasks.steps import fetching, generating, ingesting


@dataclass(frozen=True)
class Splits:
    """A dataset's name and its two ingested splits."""

    name: str
    train: Output
    dev: Output


def ingest_dataset(data: DataParameters) -> Splits:
    """Find the files that are meant, and ingest them."""
    name, train, dev = find_files(data)
    if dev:
        return Splits(name, _ingest(train, "all", data), _ingest(dev, "all", data))
    return Splits(name, _ingest(train, "train", data), _ingest(train, "dev", data))


def _ingest(files: list[Path], part: Part, data: DataParameters) -> Output:
    return ingesting(files, part, data.dev_share, data.seed)


def find_files(data: DataParameters) -> tuple[str, list[Path], list[Path]]:
    """The dataset's name and its files; no dev files where they are to be held out of train."""
    if data.train_files:
        return data.dataset, _own(data.train_files), _own(data.dev_files)
    if data.dev_files:
        raise UserError("Files to score on were given, but none to train on: give both.")
    if data.dataset == "tiny":
        folder = generating(data.seed).folder
        return "tiny", [folder / "train.json"], [folder / "dev.json"]
    known = DATASETS.get(data.dataset)
    if known is not None and known.train is not None and known.dev is not None:
        return known.name, [_fetch(known.train)], [_fetch(known.dev)]
    path = Path(data.dataset).expanduser()
    train, dev = by_split(squad_files(path))
    return path.resolve().stem, train, dev


def _own(paths: list[Path]) -> list[Path]:
    return [file for path in paths for file in squad_files(path)]


def _fetch(source: Source) -> Path:
    try:
        return fetching(source).folder / source.name
    except httpx.HTTPError as error:
        raise UserError(
            f"{source.url} could not be downloaded ({error}): download {source.name} by hand, and "
            "set BIDAFLOW_MIRROR to the folder that holds it."
        ) from error


@flow(name="ingest", description=__doc__)
@told_in_a_sentence
def ingest(data: DataParameters = DataParameters()) -> dict[str, dict[str, object]]:
    """Ingest a dataset; returns the facts about its two splits."""
    splits = ingest_dataset(data)
    return {"train": splits.train.facts, "dev": splits.dev.facts}
