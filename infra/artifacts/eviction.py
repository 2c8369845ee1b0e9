"""The size of the folder of stages on a machine whose storage root is at an address."""

import os
from contextlib import suppress
from pathlib import Path

from infra.artifacts.locks import exclusive_lock, lock_file, lock_if_free
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
    # One process at a time: two would remove more than either has to.
    with exclusive_lock(
        settings().root.resolve() / "locks" / "eviction",
        "Another process is removing stages to make room; waiting for it to finish.",
    ):
        return _remove_least_recently_used(limit)


def _remove_least_recently_used(limit: int) -> list[Path]:
    used: dict[Path, float] = {}
    sizes: dict[Path, int] = {}
    for manifest in stages_folder().glob(f"*/[!.]*/{MANIFEST}"):
        with suppress(FileNotFoundError):  # `bidaflow prune` has just removed the stage
            used[manifest.parent] = manifest.stat().st_mtime
            sizes[manifest.parent] = _size(manifest.parent)
    excess, removed = sum(sizes.values()) - limit, []
    for folder in sorted(sizes, key=used.__getitem__):
        if excess <= 0:
            break
        with lock_if_free(lock_file(folder, "use")) as free:
            if free and folder.exists():
                remove_folder(folder)
                removed.append(folder)
                excess -= sizes[folder]
    return removed


def _size(folder: Path) -> int:
    return sum(entry["bytes"] for entry in read_manifest(folder)["files"].values())
