"""Resolves a path that the user names (file, folder, glob or zip) to SQuAD-format data files, and
names the dataset, under which runs and models are filed."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from infra.errors import UserError, did_you_mean
from infra.files import archive_of, files_below, inner_suffix, matches, members, user_path
from infra.masking import mask_secrets
from infra.run_logger import logger
from tasks.datasets.catalog import DATASETS, RESERVED_NAMES, SplitName
from tasks.datasets.remote_files import RemoteFile, is_uri

EXTENSIONS = (".json", ".jsonl", ".ndjson", ".parquet")
EXTENSIONS_TEXT = ".json, .jsonl, .ndjson or .parquet"
# Bytes; names of reports and locks, of at most 255 bytes, add to it.
LONGEST_NAME = 100

DataFile = TypeVar("DataFile", bound=Path | RemoteFile)


def data_files(path_or_glob: str) -> list[Path]:
    """The data files of a path: one file, or those in a folder (recursively), a glob or a zip.

    Hidden files and folders are left out. A file of another name is a data file only if the path
    names it exactly.

    Raises:
        UserError: the path has no data files, or can't be read.
    """
    path = user_path(path_or_glob)
    if archive_of(path) or (path.is_file() and path.suffix.lower() != ".zip"):
        return [path]
    places = [path] if path.exists() else matches(path)
    files = list(dict.fromkeys(file for place in places for file in _files_at(place)))
    if not files and path.exists():
        raise UserError(f"{path_or_glob} has no {EXTENSIONS_TEXT} files. Check the path.")
    if not files:
        raise UserError(
            f"{path_or_glob} is neither a known dataset nor a file, nor a folder, zip or glob with "
            f"{EXTENSIONS_TEXT} files.{did_you_mean(path_or_glob, _known_names(path))} "
            "`bidaflow datasets` lists the known datasets."
        )
    return files


def _files_at(place: Path) -> list[Path]:
    entries = files_below(place) if place.is_dir() else [place]
    return [file for entry in entries for file in expand_data_file(entry)]


def _known_names(path: Path) -> list[str]:
    """The known datasets, and what lies in the folder of `path`, if it can be listed."""
    names = [*DATASETS]
    with suppress(OSError):
        names += map(str, path.parent.iterdir())
    return names


def expand_data_file(path: Path) -> list[Path]:
    """The file itself, or the members of a zip, if their names end in a data extension."""
    if not path.is_file() or path.name.startswith("."):
        return []
    files = members(path) if path.suffix.lower() == ".zip" else [path]
    return [file for file in files if inner_suffix(file) in EXTENSIONS]


class Assigned(NamedTuple, Generic[DataFile]):
    """The files to train on, those to evaluate on, and those that are not used."""

    train: list[DataFile]
    dev: list[DataFile]
    unused: list[DataFile]


def assign_splits(files: Sequence[DataFile]) -> Assigned[DataFile]:
    """Training and dev files, distinguished by names that begin with "train" and "dev".

    Unless there are files of both kinds, all are training files, to be divided by article. If there
    are, other files are not used, and a line in the log names them. A line in the log also says if
    a file beside one named "train", such as test.json, is a training file, or one named "dev" is.
    """
    dev = [file for file in files if _begins_with(file, "dev")]
    train = [file for file in files if _begins_with(file, "train")]
    if not (train and dev):
        if 0 < len(train) < len(files):
            _log_all_train("dev", tuple(file.name for file in files))
        elif dev and len(files) > 1:
            _log_all_train("train", tuple(file.name for file in files))
        return Assigned(list(files), [], [])
    unused = [file for file in files if not _begins_with(file, "train", "dev")]
    if unused:
        _log_unused(tuple(file.name for file in unused))
    return Assigned(train, dev, unused)


def _begins_with(file: DataFile, *words: str) -> bool:
    return file.name.lower().startswith(words)


def warn_of_dev_files(files: Sequence[DataFile]) -> None:
    """Warn if some of several training files look like dev files."""
    dev = tuple(file.name for file in files if _begins_with(file, "dev"))
    if dev and len(files) > 1:
        _log_trained_on(dev)


@cache  # `check` finds them twice
def _log_trained_on(names: tuple[str, ...]) -> None:
    logger().warning(
        f"Used for training, although the names begin with dev: {_listed(names)}. To evaluate on "
        "them, name the files of both kinds: data.train_files and data.dev_files."
    )


@cache  # `check` assigns them twice
def _log_unused(names: tuple[str, ...]) -> None:
    logger().warning(not_used(names))


def not_used(names: Sequence[str]) -> str:
    """Says which files of a folder are not used; none: nothing."""
    if not names:
        return ""
    return f"Not used, as the names begin with neither train nor dev: {_listed(names)}"


@cache  # `check` assigns them twice
def _log_all_train(missing: SplitName, names: tuple[str, ...]) -> None:
    purpose = "evaluate" if missing == "dev" else "train only"
    logger().warning(
        f"No file name begins with {missing}, so all {len(names)} files are training files: "
        f"{_listed(names)}. To {purpose} on one of them, rename it to {missing}…, or set "
        "data.train_files and data.dev_files."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:5], *(["…"] if names[5:] else [])])


def dataset_name(dataset: str) -> str:
    """A dataset's name; for a path or URL, its last part, made valid for paths and MLflow."""
    if dataset in DATASETS:
        return dataset
    path = mask_secrets(dataset).partition("?")[0] if is_uri(dataset) else dataset
    last = os.path.basename(os.path.abspath(os.path.expanduser(path)))
    plain = re.sub(r"(\.(jsonl?|ndjson|parquet|gz|xz|zst|zip))+$", "", last, flags=re.IGNORECASE)
    return re.sub(r"[^\w.-]+", "-", plain).strip("-.") or "data"


def require_valid_name(name: str) -> None:
    """Raises UserError if results can't be kept under a dataset's name."""
    if name in RESERVED_NAMES:
        problem, other = "is reserved", "another"
    elif len(name.encode()) > LONGEST_NAME:
        problem, other = f"has more than {LONGEST_NAME} bytes", "a shorter"
    else:
        return
    raise UserError(
        f"The dataset's name {name!r} {problem}. Rename its file or folder, or set "
        f"data.train_files to it and data.dataset to {other} name."
    )
