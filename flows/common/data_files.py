"""Resolves what a user names (datasets, files, folders, globs, addresses) to local files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.common.parameters import DataParameters
from infra.errors import UserError
from tasks.data.splits import Overlap
from tasks.datasets.catalog import DATASETS, Dataset, Part
from tasks.datasets.http import find_web_file, is_on_the_web
from tasks.datasets.object_store import find_objects, is_address
from tasks.datasets.paths import ENDINGS_IN_WORDS, by_split, data_below, data_files
from tasks.stages import fetching, fetching_object, fetching_web_file, generating

VALIDATION_SHARE = 0.1
"""Share of the training articles held out for validation, unless a dataset suggests another."""


@dataclass(frozen=True)
class Files:
    """A dataset's name, its files, and how to split them."""

    name: str
    train: list[Path]
    dev: list[Path]  # empty if dev is held out of the training files
    mixed: list[tuple[list[Path], float]]
    validation_share: float
    overlap: Overlap

    @property
    def all(self) -> list[Path]:
        """Every file, whatever its use."""
        return [*self.train, *self.dev, *(file for part, _ in self.mixed for file in part)]


def find_files(data: DataParameters) -> Files:
    """The files that the parameters name; remote files are fetched."""
    known = _known_as(data)
    train, dev = _train_and_dev(data, known)
    given = _all(data.dev_files, "dev", data.seed)
    return Files(
        name=name_of_data(data),
        train=train,
        dev=given or dev,
        mixed=[(_all(part.files, "train", data.seed), part.weight) for part in data.mix],
        validation_share=_validation_share(data, known),
        overlap=data.overlap or ("leave out" if known and not given else "refuse"),
    )


def suited_to(data: DataParameters) -> dict[str, Any]:
    """Changes to a preset's training that suit a known dataset; none for other data."""
    known = _known_as(data)
    return known.training if known else {}


def _known_as(data: DataParameters) -> Dataset | None:
    """The known dataset that the parameters name, unless they give their own training files."""
    return None if data.train_files else DATASETS.get(data.dataset)


def name_of_data(data: DataParameters) -> str:
    """The name under which runs on the data are filed."""
    if data.train_files and data.dataset == "tiny":  # the default, which does not name these files
        return name_of(data.train_files[0])
    return data.dataset if data.train_files else name_of(data.dataset)


def _train_and_dev(data: DataParameters, known: Dataset | None) -> tuple[list[Path], list[Path]]:
    if data.train_files:
        return _all(data.train_files, "train", data.seed), []
    if data.dev_files and data.dataset == "tiny":
        raise UserError("Files to score on were given, but none to train on: give both.")
    if known is None:
        return by_split(_files_of(data.dataset, "train", data.seed))
    train = _of_known(known, "train", data.seed)
    dev = _of_known(known, "dev", data.seed)
    return [train], [] if dev == train else [dev]


def _validation_share(data: DataParameters, known: Dataset | None) -> float:
    if data.validation_share is not None:
        return data.validation_share
    return known.validation_share if known else VALIDATION_SHARE


def name_of(dataset: str) -> str:
    """A dataset's name; for a path or address, its last part, made valid for paths and MLflow."""
    if dataset in DATASETS:
        return dataset
    place = dataset.partition("?")[0] if is_address(dataset) else dataset
    last = Path(place).expanduser().resolve().name
    plain = re.sub(r"(\.(jsonl?|ndjson|parquet|gz|xz|zst|zip))+$", "", last, flags=re.IGNORECASE)
    return re.sub(r"[^\w.-]+", "-", plain).strip("-.") or "data"


def _all(named: Sequence[str], part: Part, seed: int) -> list[Path]:
    return [file for name in named for file in _files_of(name, part, seed)]


def _files_of(named: str, part: Part, seed: int) -> list[Path]:
    known = DATASETS.get(named)
    if known:
        return [_of_known(known, part, seed)]
    return _stored(named) if is_address(named) else data_files(named)


def _stored(address: str) -> list[Path]:
    """Local copies of remote files; a file that has changed is fetched again."""
    if is_on_the_web(address):
        file = find_web_file(address)
        files = data_below(fetching_web_file(file).folder / file.name)
        if not files:
            raise UserError(f"{address} is no data by its name: end it in {ENDINGS_IN_WORDS}.")
        return files
    found = find_objects(address)
    copies = [fetching_object(stored).folder / stored.name for stored in found]
    return [file for copy in copies for file in data_below(copy)]


def _of_known(known: Dataset, part: Part, seed: int) -> Path:
    """A known dataset's file for that part, or its only file."""
    source = known.source(part)
    if source is None:
        return generating(seed).folder / f"{part}.json"
    return fetching(source).folder / source.name
