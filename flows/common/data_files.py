"""Resolves the datasets, files, folders, globs and URLs that a user names to local files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.common.parameters import DataParameters
from infra.errors import UserError
from tasks.data.splits import Overlap
from tasks.datasets.catalog import DATASETS, FEW_QUESTIONS, FOR_FEW_QUESTIONS, Dataset, SplitName
from tasks.datasets.fetch import Source
from tasks.datasets.paths import (
    DataFile,
    assign_splits,
    dataset_name,
    find_data_files,
    require_valid_name,
    warn_of_dev_files,
)
from tasks.stages import fetch_remote_stage, fetch_stage, generate_stage

# Share of the training articles held out for validation, unless a dataset suggests another.
VALIDATION_SHARE = 0.1


@dataclass(frozen=True)
class DataFiles:
    """A dataset's name, its files, and how to split them."""

    name: str
    train: list[Path]
    dev: list[Path]  # empty if dev is held out of the training files
    mixed: list[tuple[list[Path], float]]
    validation_share: float
    overlap: Overlap
    unused: list[str]  # names of files in the dataset's folder that are in no split

    @property
    def all(self) -> list[Path]:
        """Every file, whatever its use."""
        return [*self.train, *self.dev, *(file for files, _ in self.mixed for file in files)]


def find_files(data: DataParameters) -> DataFiles:
    """The files that the parameters name; remote files are fetched."""
    known = _known_dataset(data)
    train, dev, unused = _train_and_dev(data, known)
    own_dev = _resolve_all(data.dev_files, "dev", data.seed)
    suggested_share = known.validation_share if known else VALIDATION_SHARE
    return DataFiles(
        name=name_of_data(data),
        train=train,
        dev=own_dev or dev,
        mixed=[
            (_resolve_all(source.files, "train", data.seed), source.weight) for source in data.mix
        ],
        validation_share=(
            suggested_share if data.validation_share is None else data.validation_share
        ),
        overlap=data.overlap or ("leave out" if known and not own_dev else "refuse"),
        unused=unused,
    )


def find_evaluation_files(data: DataParameters) -> list[Path]:
    """The dev files of the dataset, or all of its files if it has none; only these are fetched."""
    if _known_dataset(data):
        return resolve(data.dataset, "dev", data.seed)
    train_files, dev_files, _ = assign_splits(find_data_files(data.dataset, local_copy))
    return _local_copies(dev_files or train_files)


def recommended_training(data: DataParameters) -> dict[str, Any]:
    """Changes to a preset's training that suit a known dataset; none for other data."""
    known = _known_dataset(data)
    return known.training if known else {}


def few_questions_training(
    data: DataParameters, questions: int, chosen: Mapping[str, Any], has_validation: bool
) -> dict[str, Any]:
    """Changes to a preset's training that suit own data with few training questions.

    Fields that the user has chosen stay. So does the learning rate if the optimizer is chosen, and
    the reverse; patience needs a validation split.
    """
    if _known_dataset(data) is not None or questions >= FEW_QUESTIONS:
        return {}
    kept = {*chosen, *(() if has_validation else ("patience",))}
    if kept & {"optimizer", "learning_rate"}:
        kept |= {"optimizer", "learning_rate"}
    return {name: value for name, value in FOR_FEW_QUESTIONS.items() if name not in kept}


def _known_dataset(data: DataParameters) -> Dataset | None:
    """The known dataset that the parameters name, unless they give their own training files."""
    return None if data.train_files else DATASETS.get(data.dataset)


def name_of_data(data: DataParameters) -> str:
    """The name under which runs on the data are filed.

    Raises:
        UserError: the name is reserved, or too long.
    """
    # The default does not name training files.
    unnamed = data.train_files and data.dataset == "tiny"
    name = dataset_name(data.train_files[0] if unnamed else data.dataset)
    require_valid_name(name)
    return name


def _train_and_dev(
    data: DataParameters, known: Dataset | None
) -> tuple[list[Path], list[Path], list[str]]:
    """The files of both splits, and the names of unused ones."""
    if data.train_files:
        files = _resolve_all(data.train_files, "train", data.seed)
        warn_of_dev_files(files)
        return files, [], []
    if data.dev_files and data.dataset == "tiny":
        raise UserError(
            "data.dev_files is set, but there are no files to train on. Set data.train_files, or "
            "data.dataset."
        )
    if known is None:
        train_files, dev_files, others = assign_splits(find_data_files(data.dataset, local_copy))
        unused = [file.name for file in others]
        return _local_copies(train_files), _local_copies(dev_files), unused
    train = resolve(data.dataset, "train", data.seed)
    dev = resolve(data.dataset, "dev", data.seed)
    return train, [] if dev == train else dev, []


def _resolve_all(specs: Sequence[str], split: SplitName, seed: int) -> list[Path]:
    return [file for spec in specs for file in resolve(spec, split, seed)]


def resolve(spec: str, split: SplitName, seed: int) -> list[Path]:
    """The local data files that a user names by a path, a glob, a URL, the URI of an object or a
    folder in a store, or as a known dataset, of which the file for this split is taken.

    A path may lead into a zip. What is not on this machine is fetched, or generated by the seed.

    Raises:
        UserError: a name leads to no data files, or they can't be read or fetched.
    """
    if spec not in DATASETS:
        return _local_copies(find_data_files(spec, local_copy))
    source = DATASETS[spec].source(split)
    if source is None:
        return [generate_stage(seed).folder / f"{split}.json"]
    return [fetch_stage(source).folder / source.name]


def _local_copies(files: Sequence[DataFile]) -> list[Path]:
    return [file if isinstance(file, Path) else local_copy(file) for file in files]


def local_copy(file: Source) -> Path:
    """A local copy of a remote file, which is fetched again if it has changed."""
    return fetch_remote_stage(file).folder / file.name
