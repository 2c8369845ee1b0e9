"""Atomic writes: other processes, and those after a crash, read the old content or all of the new.

Several files that replace others together are not written with this module: see
`tasks/embeddings/formats/export.py`.
"""

import filecmp
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO

# Prefixes of folders that are not complete yet, or not any more.
BUILDING, PRUNED = ".building-", ".pruned-"


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file whose content replaces that of `path` if the block succeeds.

    Its folder is created if it is missing. Until then the file has a hidden name beside `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a system crash may leave an empty file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace the content of `path`, or create the file and its folder; text becomes UTF-8."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def link_to_equal(file: Path, others: Iterable[Path]) -> None:
    """Make `file` a hard link to the first of the others that has the same content, so that both
    take disk space once; it stays as it is if there is none, or the file system allows no link.

    Each of the names keeps the content if the others are removed. Linked files must be replaced as
    a whole, never written in place.
    """
    temporary = _beside(file)
    for other in others:
        # It may be removed meanwhile, or be on another file system.
        with suppress(OSError):
            if filecmp.cmp(file, other, shallow=False):
                os.link(other, temporary)
                temporary.replace(file)
                break
    temporary.unlink(missing_ok=True)  # both were links to the same file


def _beside(path: Path) -> Path:
    # Not `tempfile`, whose files only their owner can read.
    return path.with_name(f".{path.name}.{token_hex(4)}")


@contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """Yield an empty folder named like `final`, on the same disk, and rename it to `final` at the
    end of the block; after an error, remove it.

    All is on disk before the rename: else a folder that a system crash left half-written would look
    finished.
    """
    building = final.parent / f"{BUILDING}{final.name}"
    shutil.rmtree(building, ignore_errors=True)  # left by a killed run
    folder = building / final.name
    folder.mkdir(parents=True)
    try:
        yield folder
        for path in (*folder.rglob("*"), folder):
            _flush(path)
        folder.rename(final)
        _flush(final.parent)
    finally:
        shutil.rmtree(building)


def _flush(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(folder: Path) -> None:
    """Remove a folder. It is renamed first, so that a partly removed one never looks finished."""
    pruned = folder.with_name(PRUNED + folder.name.removeprefix(PRUNED))
    if pruned != folder:
        shutil.rmtree(pruned, ignore_errors=True)  # left by a killed removal
        folder.rename(pruned)
    shutil.rmtree(pruned)
