"""Resolves the datasets, files, folders, globs and URLs that a user names to local files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.common.parameters import DataParameters
from infra.errors import UserError
from infra.files import inner_suffix
from tasks.data.splits import Overlap
from tasks.datasets.catalog import DATASETS, FEW_QUESTIONS, FOR_FEW_QUESTIONS, Dataset, SplitName
from tasks.datasets.paths import (
    EXTENSIONS,
    EXTENSIONS_TEXT,
    assign_splits,
    data_files,
    dataset_name,
    expand_data_file,
    require_valid_name,
    warn_of_dev_files,
)
from tasks.datasets.remote_files import RemoteFile, find_remote_files, is_uri
from tasks.stages import fetching, fetching_remote_file, generating

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
    known = _known_dataset(data)
    if known is not None:
        return [_known_file(known, "dev", data.seed)]
    train_files, dev_files, _ = assign_splits(_find(data.dataset))
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
        train_files, dev_files, others = assign_splits(_find(data.dataset))
        unused = [file.name for file in others]
        return _local_copies(train_files), _local_copies(dev_files), unused
    train = _known_file(known, "train", data.seed)
    dev = _known_file(known, "dev", data.seed)
    return [train], [] if dev == train else [dev], []


def _resolve_all(specs: Sequence[str], split: SplitName, seed: int) -> list[Path]:
    return [file for spec in specs for file in _resolve(spec, split, seed)]


def _resolve(spec: str, split: SplitName, seed: int) -> list[Path]:
    known = DATASETS.get(spec)
    if known:
        return [_known_file(known, split, seed)]
    return _local_copies(_find(spec))


def _find(path_or_uri: str) -> list[Path | RemoteFile]:
    """The data files at a path or URI; remote ones are not fetched, except zips, to list them."""
    if not is_uri(path_or_uri):
        return [*data_files(path_or_uri)]
    files = [file for stored in find_remote_files(path_or_uri) for file in _expand(stored)]
    if not files:
        raise UserError(f"{path_or_uri}: unsupported file name; expected one of {EXTENSIONS_TEXT}.")
    return files


def _expand(stored: RemoteFile) -> list[Path | RemoteFile]:
    """The file itself, or the members of a zip, if their names end in a data extension."""
    name = Path(stored.name)
    if name.name.startswith("."):
        return []
    if name.suffix.lower() == ".zip":
        return [*expand_data_file(local_copy(stored))]
    return [stored] if inner_suffix(name) in EXTENSIONS else []


def _local_copies(files: Sequence[Path | RemoteFile]) -> list[Path]:
    return [file if isinstance(file, Path) else local_copy(file) for file in files]


def local_copy(file: RemoteFile) -> Path:
    """A local copy of a remote file, which is fetched again if it has changed."""
    return fetching_remote_file(file).folder / file.name


def _known_file(known: Dataset, split: SplitName, seed: int) -> Path:
    """A known dataset's file for that split, or its only file."""
    source = known.source(split)
    if source is None:
        return generating(seed).folder / f"{split}.json"
    return fetching(source).folder / source.name
