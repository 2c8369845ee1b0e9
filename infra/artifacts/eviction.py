"""The size of the folder of stages on a machine whose storage root is at an address."""

import os
from pathlib import Path

from infra.artifacts.locks import lock_file, lock_if_free
from infra.artifacts.manifest import MANIFEST, read_manifest, stages_folder
from infra.artifacts.staging import remove_folder
from infra.settings import settings


def note_use(folder: Path) -> None:
    """Record that a stage is used now, as the time of its manifest."""
    if settings().address is not None:
        os.utime(folder / MANIFEST)


def evict() -> list[Path]:
    """Remove the stages that were not used for longest, down to BIDAFLOW_CACHE_SIZE.

    Stages in use are kept, even if they exceed it. Returns the removed folders.
    """
    limit = settings().cache_size
    if settings().address is None or limit is None:
        return []
    sizes = {
        file.parent: _size(file.parent) for file in stages_folder().glob(f"*/[!.]*/{MANIFEST}")
    }
    excess, removed = sum(sizes.values()) - limit, []
    for folder in sorted(sizes, key=lambda folder: (folder / MANIFEST).stat().st_mtime):
        if excess <= 0:
            break
        with lock_if_free(lock_file(folder, "use")) as free:
            if free:
                remove_folder(folder)
                removed.append(folder)
                excess -= sizes[folder]
    return removed


def _size(folder: Path) -> int:
    return sum(entry["bytes"] for entry in read_manifest(folder)["files"].values())
