"""Folders below the root whose files change, such as the report pages, shared by all machines.

They are copied from the storage root's address before they are read, and what is written to them is
copied back. All functions do nothing if the storage root is a folder.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath

from infra.artifacts.locks import exclusive_lock
from infra.artifacts.manifest import MANIFEST, stages_folder
from infra.files import is_hidden, user_path
from infra.settings import settings
from infra.storage.store import Store, in_parallel, local_store, name_of, root_store

State = tuple[int, int]  # size in bytes, and time of the last change in seconds


@contextmanager
def shared_folder(folder: Path) -> Iterator[None]:
    """Within the block, a folder has the files of all machines; they get its changes at the end.

    If two machines write the same file, the later one wins.
    """
    store = root_store()
    if store is None:
        yield
        return
    with _locked():
        _pull_all(store, folder)
        before = _files(folder)
        yield
        after = _files(folder)
        changed = [path for path, state in after.items() if before.get(path) != state]
        in_parallel(lambda path: _root().copy(name_of(path), store, name_of(path)), changed)
        in_parallel(lambda path: store.remove(name_of(path)), before.keys() - after.keys())
        there = _shared_files(store, folder)
        for path in there.keys() & changed:
            _set_time(path, there[path])


def pull(folder: Path) -> None:
    """Make a folder, or a file, equal to the one at the root's address.

    Do not call it within a block of `shared_folder`: it waits for that.
    """
    store = root_store()
    if store is not None:
        with _locked():
            _pull_all(store, folder)


def remove_shared(folder: Path) -> None:
    """Remove a folder from the root's address; of a stage, the manifest first."""
    store = root_store()
    if store is not None:
        store.remove(name_of(folder / MANIFEST))
        store.remove(name_of(folder))


def local_path(name: str) -> Path:
    """The path of a file or folder, given as a path, or as an address below the root's address.

    A file or folder below the root is copied from the root's address first. Stages do not change,
    so those that are here stay as they are.
    """
    address, root = settings().address, settings().root.resolve()
    if address is None:
        return user_path(name)
    inside = name.startswith(f"{address}/")
    path = root / name.removeprefix(f"{address}/") if inside else user_path(name)
    if path.is_relative_to(root) and not path.is_relative_to(stages_folder()):
        pull(path)
    return path


def _locked() -> AbstractContextManager[None]:
    """Keep other processes of this machine out: one that pulls a folder would remove the files that
    another one has written to it and not published yet."""
    return exclusive_lock(
        settings().root.resolve() / "locks" / "shared-folders",
        "Another run is publishing files; waiting for it to finish.",
    )


def _root() -> Store:
    return local_store(settings().root.resolve())


def _files(folder: Path) -> dict[Path, State]:
    """The files of a folder without hidden ones, or that file itself."""
    paths = [folder] if folder.is_file() else folder.rglob("*")
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns // 10**9)
        for path in paths
        if path.is_file() and not is_hidden(path.relative_to(folder))
    }


def _shared_files(store: Store, folder: Path) -> dict[Path, State]:
    """The files of a folder at the root's address without hidden ones, or that file itself.

    Raises:
        UserError: the name of one could lead out of the folder.
    """
    return {
        folder / name: (info.size or 0, (info.mtime_ns or 0) // 10**9)
        for name, info in store.listed(name_of(folder)).items()
        if info.is_file and not is_hidden(PurePosixPath(name))
    }


def _pull_all(store: Store, folder: Path) -> None:
    there, here = _shared_files(store, folder), _files(folder)

    def get(path: Path) -> None:
        try:
            store.copy(name_of(path), _root(), name_of(path))
            _set_time(path, there[path])
        except FileNotFoundError:  # another machine has just removed it
            path.unlink(missing_ok=True)

    in_parallel(get, [path for path, state in there.items() if here.get(path) != state])
    for path in here.keys() - there.keys():
        path.unlink(missing_ok=True)


def _set_time(path: Path, state: State) -> None:
    """Give a file the time that it has at the address, by which later changes are recognised."""
    os.utime(path, (state[1], state[1]))
