"""Stages on the nodes of a cluster: each node fetches what its processes read, once, by its key."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from infra.artifacts.eviction import evict, note_use
from infra.artifacts.manifest import stages_folder
from infra.artifacts.remote import ensure_local, republish
from infra.settings import settings

# infra.artifacts.in_use is imported locally: it loads Prefect, which takes a second.

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
    from infra.artifacts.in_use import use

    folder = _stage_of(path)
    use(folder)
    ensure_local(folder)
    note_use(folder)
    return settings().root.resolve() / path


def _stage_of(path: Path) -> Path:
    """The folder of the stage that a path relative to the root belongs to."""
    stage, key = path.parts[1:3]
    return stages_folder() / stage / key
