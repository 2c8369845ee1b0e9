"""Finds the data files that a user names by path, glob or URI, assigns them to splits by file name,
and names the dataset, under which runs and models are filed."""

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from fsspec.utils import glob_translate
from pyarrow import fs

from infra.errors import UserError, did_you_mean
from infra.files import (
    archive_of,
    files_below,
    inner_suffix,
    is_hidden,
    matches,
    members,
    user_path,
)
from infra.masking import mask_secrets
from infra.run_logger import logger
from infra.storage.safe_names import safe_name
from tasks.datasets.catalog import DATASETS, RESERVED_NAMES
from tasks.datasets.download import validator
from tasks.datasets.fetch import Source, explained_errors, is_http_url

EXTENSIONS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
EXTENSIONS_TEXT = ".json, .jsonl, .ndjson, .csv, .tsv or .parquet"
# Bytes; names of reports and locks, of at most 255 bytes, add to it.
LONGEST_NAME = 100

DataFile = Path | Source


def find_data_files(spec: str, local_copy: Callable[[Source], Path]) -> list[DataFile]:
    """The data files at a path or URI: one file, or those in a folder (recursively), glob or zip.

    Hidden files and folders are left out. A file of another name is a data file only if a path
    names it exactly. Of remote files, only zips are fetched (`local_copy`), to list their members.

    Raises:
        UserError: there are none, or they can't be read.
    """
    if not is_uri(spec):
        return [*_local_files(spec)]
    found: list[DataFile] = []
    for file in find_remote_files(spec):
        if _is_zip(Path(file.name)):
            found += _expanded(local_copy(file))
        elif inner_suffix(Path(file.name)) in EXTENSIONS:
            found.append(file)
    if not found:
        raise UserError(f"{spec}: unsupported file name; expected one of {EXTENSIONS_TEXT}.")
    return found


def _local_files(path_or_glob: str) -> list[Path]:
    path = user_path(path_or_glob)
    if archive_of(path) or (path.is_file() and not _is_zip(path)):
        return [path]
    places = [path] if path.exists() else matches(path)
    entries = [e for place in places for e in (files_below(place) if place.is_dir() else [place])]
    files = list(dict.fromkeys(file for entry in entries for file in _expanded(entry)))
    if not files and path.exists():
        others = "".join(f", but {entry.name}" for entry in entries[:1] if entry != path)
        raise UserError(
            f"{path_or_glob} has no {EXTENSIONS_TEXT} files{others}. Check the path, unpack "
            "archives, or save documents as one of these."
        )
    if not files:
        raise UserError(
            f"{path_or_glob} is neither a known dataset nor a file, nor a folder, zip or glob with "
            f"{EXTENSIONS_TEXT} files.{did_you_mean(path_or_glob, _known_names(path))} "
            "`bidaflow datasets` lists the known datasets."
        )
    return files


def _is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def _expanded(path: Path) -> list[Path]:
    """The file itself, or the members of a zip, if their names end in a data extension."""
    if not path.is_file() or path.name.startswith("."):
        return []
    files = members(path) if _is_zip(path) else [path]
    return [file for file in files if inner_suffix(file) in EXTENSIONS]


def _known_names(path: Path) -> list[str]:
    """The known datasets, and what lies in the folder of `path`, if it can be listed."""
    names = [*DATASETS]
    with suppress(OSError):
        names += map(str, path.parent.iterdir())
    return names


def is_uri(name_or_uri: str) -> bool:
    """Whether a name begins with a URI scheme, such as s3://bucket/folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", name_or_uri) is not None


def find_remote_files(uri: str) -> list[Source]:
    """The current version of the file at a URL; or the object at a URI of an object store that
    pyarrow opens, those below a folder (recursively), or those that match a glob, in which **
    stands for folders at any depth. Hidden objects, and those in hidden folders, are left out.

    Raises:
        UserError: there are none, the URI of an object contains a password, the name of a file
            could lead out of a folder here, or it can't be read; the message says why.
    """
    is_web = is_http_url(uri)
    if not is_web and urlsplit(uri).password is not None:
        raise UserError(
            "The URI of a data file contains a password. Set the credentials as environment "
            "variables instead, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    with explained_errors(uri):
        files = [_find_web_file(uri)] if is_web else _list_objects(uri)
    if not files:
        raise UserError(f"No files found at {uri}. Check the URI.")
    return files


def _find_web_file(url: str) -> Source:
    """The file is named by the last part of the URL's path, with ".json" appended if it has no
    extension."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name or "data"
    return Source(
        name=safe_name(name if "." in name else f"{name}.json", mask_secrets(url)),
        url=url,
        version=validator(url) or f"requested at {time.time_ns()}",
    )


def _list_objects(uri: str) -> list[Source]:
    location, mark, query = uri.partition("?")
    folder = location.partition("*")[0].rpartition("/")[0] if "*" in location else location
    pattern = location[len(folder) :].strip("/") or "**"
    store, path = fs.FileSystem.from_uri(folder + mark + query)
    infos: list[Any] = [store.get_file_info(path)]
    if infos[0].type == fs.FileType.Directory:
        infos = store.get_file_info(fs.FileSelector(path, recursive=True))
    return [
        Source(
            name=safe_name(info.base_name, mask_secrets(folder)),
            url=_join(folder, place) + mark + query,
            version=f"{info.size} bytes, modified {info.mtime_ns}",
        )
        for info in sorted(infos, key=lambda info: info.path)
        if info.type == fs.FileType.File
        and not is_hidden(place := PurePosixPath(info.path).relative_to(path))
        and re.match(glob_translate(pattern), place.as_posix())
    ]


def _join(folder: str, place: PurePosixPath) -> str:
    """The URI of an object at a place in a folder, which may be the object itself."""
    return f"{folder.rstrip('/')}/{quote(place.as_posix())}" if place.parts else folder


def assign_splits(
    files: Sequence[DataFile],
) -> tuple[list[DataFile], list[DataFile], list[DataFile]]:
    """Training files, dev files, distinguished by names that begin with "train" and "dev", and
    those that are not used.

    Unless there are files of both kinds, all are training files, to be divided by article. If there
    are, other files are not used, and a line in the log names them. A line in the log also says if
    a file beside one named "train", such as test.json, is a training file, or one named "dev" is.
    """
    dev = [file for file in files if _begins_with(file, "dev")]
    train = [file for file in files if _begins_with(file, "train")]
    if not (train and dev):
        if 0 < len(train) < len(files) or (dev and len(files) > 1):
            missing, purpose = ("dev", "evaluate") if train else ("train", "train only")
            _warn_once(
                f"No file name begins with {missing}, so all {len(files)} files are training "
                f"files: {_listed([file.name for file in files])}. To {purpose} on one of them, "
                f"rename it to {missing}…, or set data.train_files and data.dev_files."
            )
        return list(files), [], []
    unused = [file for file in files if not _begins_with(file, "train", "dev")]
    if unused:
        _warn_once(not_used([file.name for file in unused]))
    return train, dev, unused


def _begins_with(file: DataFile, *words: str) -> bool:
    return file.name.lower().startswith(words)


def warn_of_dev_files(files: Sequence[DataFile]) -> None:
    """Warn if some of several training files look like dev files."""
    dev = [file.name for file in files if _begins_with(file, "dev")]
    if dev and len(files) > 1:
        _warn_once(
            f"Used for training, although the names begin with dev: {_listed(dev)}. To evaluate on "
            "them, name the files of both kinds: data.train_files and data.dev_files."
        )


@cache  # `check` finds and assigns files twice
def _warn_once(message: str) -> None:
    logger().warning(message)


def not_used(names: Sequence[str]) -> str:
    """Says which files of a folder are not used; none: nothing."""
    if not names:
        return ""
    return f"Not used, as the names begin with neither train nor dev: {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:5], *(["…"] if names[5:] else [])])


def dataset_name(dataset: str) -> str:
    """A dataset's name; for a path or URL, its last part, made valid for paths and MLflow."""
    if dataset in DATASETS:
        return dataset
    path = mask_secrets(dataset).partition("?")[0] if is_uri(dataset) else dataset
    last = os.path.basename(os.path.abspath(os.path.expanduser(path)))
    plain = re.sub(
        r"(\.(jsonl?|ndjson|csv|tsv|parquet|gz|xz|zst|zip))+$", "", last, flags=re.IGNORECASE
    )
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
