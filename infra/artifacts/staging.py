"""New stage folders, which get their place among the stages when they are complete."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUILDING, PRUNED = ".building-", ".pruned-"


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
