"""The stages on a machine whose storage root is at an address: each process fetches what it reads,
once, by its key, and those that were not used for longest make room."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from infra.artifacts.in_use import use
from infra.artifacts.locks import exclusive_lock, lock_file, lock_if_free
from infra.artifacts.manifest import MANIFEST, read_manifest, stages_folder
from infra.artifacts.remote import ensure_local, republish
from infra.atomic_files import remove_folder
from infra.settings import settings

T = TypeVar("T")


def portable(value: T) -> T:
    """A copy of a dataclass that other nodes can open, if the storage root is an address.

    Paths of stages become relative to the root. Stages that another machine has removed from there
    since they were built are published again.
    """
    if settings().address is None:
        return value
    root, stages = settings().root.resolve(), set[Path]()

    def relative(path: Path) -> Path:
        stages.add(_stage_of(path.relative_to(root)))
        return path.relative_to(root)

    sent = _with_paths(value, relative)
    republish(stages)
    return sent


def fetched(value: T) -> T:
    """A copy of a portable dataclass with this node's paths, after fetching the stages.

    The stages are kept until the process ends; others may be removed to make room.

    Raises:
        UserError: a stage can't be fetched.
    """
    result = _with_paths(value, _fetch)
    evict()
    return result


def _with_paths(value: T, change: Callable[[Path], Path]) -> T:
    """A copy of a dataclass in which all paths are changed, also those of nested dataclasses."""

    def changed(item: Any) -> Any:
        if isinstance(item, Path):
            return change(item)
        if is_dataclass(item) and not isinstance(item, type):
            values = {f.name: getattr(item, f.name) for f in fields(item)}
            return replace(item, **{name: changed(inner) for name, inner in values.items()})
        return item

    result: T = changed(value)
    return result


def _fetch(path: Path) -> Path:
    if path.is_absolute():
        return path
    folder = _stage_of(path)
    use(folder)
    ensure_local(folder)
    return settings().root.resolve() / path


def _stage_of(path: Path) -> Path:
    """The folder of the stage that a path relative to the root belongs to."""
    stage, key = path.parts[1:3]
    return stages_folder() / stage / key


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
    stages, removed = list[tuple[float, int, Path]](), list[Path]()
    for manifest in stages_folder().glob(f"*/[!.]*/{MANIFEST}"):
        with suppress(FileNotFoundError):  # `bidaflow prune` has just removed the stage
            files = read_manifest(manifest.parent)["files"].values()
            size = sum(entry["bytes"] for entry in files)
            stages.append((manifest.stat().st_mtime, size, manifest.parent))
    excess = sum(size for _, size, _ in stages) - limit
    for _, size, folder in sorted(stages):
        with lock_if_free(lock_file(folder, "use")) as free:
            if excess > 0 and free and folder.exists():
                remove_folder(folder)
                removed.append(folder)
                excess -= size
    return removed
