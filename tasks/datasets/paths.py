"""Resolves a path that the user names (file, folder, glob or zip) to SQuAD-format data files."""

from collections.abc import Sequence
from pathlib import Path

from infra.errors import UserError
from infra.files import archive_of, inner_suffix, matches, members

ENDINGS = (".json", ".jsonl", ".ndjson", ".parquet")
ENDINGS_IN_WORDS = ".json, .jsonl, .ndjson or .parquet"


def data_files(named: str) -> list[Path]:
    """The data files of a path: one file, or those in a folder (recursively), a glob or a zip.

    Raises:
        UserError: the path has no data files.
    """
    path = Path(named).expanduser()
    if path.is_dir():
        files = [file for below in sorted(path.rglob("*")) for file in data_below(below)]
    elif path.suffix.lower() == ".zip" and path.is_file():
        files = data_below(path)
    elif path.is_file() or archive_of(path):
        files = [path]
    else:
        files = [file for match in matches(path) for file in data_files(str(match))]
    if not files:
        raise UserError(
            f"{named} is neither a known dataset, nor a file, nor a folder, zip or glob with "
            f"{ENDINGS_IN_WORDS} files."
        )
    return files


def data_below(path: Path) -> list[Path]:
    """The file itself, or the members of a zip, if their names end in a data extension."""
    if not path.is_file() or path.name.startswith("."):
        return []
    files = members(path) if path.suffix.lower() == ".zip" else [path]
    return [file for file in files if inner_suffix(file) in ENDINGS]


def by_split(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Training and dev files, distinguished by names that begin with "train" and "dev".

    Unless there are files of both kinds, all are training files, to be divided by article.
    """
    dev = [file for file in files if file.name.startswith("dev")]
    train = [file for file in files if file.name.startswith("train")]
    return (train, dev) if train and dev else (list(files), [])
