"""New stage folders, which get their place among the stages when they are complete."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUILDING, PRUNED = ".building-", ".pruned-"


@contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """Yield an empty folder named like `final`, on the same disk, and rename it to `final` at the
    end of the block; after an error, remove it."""
    building = final.parent / f"{BUILDING}{final.name}"
    shutil.rmtree(building, ignore_errors=True)  # left by a killed run
    folder = building / final.name
    folder.mkdir(parents=True)
    try:
        yield folder
        folder.rename(final)
    finally:
        shutil.rmtree(building)


def remove_folder(folder: Path) -> None:
    """Remove a folder. It is renamed first, so that a partly removed one never looks finished."""
    pruned = folder.with_name(PRUNED + folder.name.removeprefix(PRUNED))
    if pruned != folder:
        shutil.rmtree(pruned, ignore_errors=True)  # left by a killed removal
        folder.rename(pruned)
    shutil.rmtree(pruned)
