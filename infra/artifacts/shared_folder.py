"""Folders below the root whose files change, such as the report pages, shared by all machines.

They are copied from the storage root's address before they are read, and what is written to them is
copied back. All functions do nothing if the storage root is a folder.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from infra.artifacts.locks import exclusive_lock
from infra.artifacts.manifest import MANIFEST, stages_folder
from infra.artifacts.remote import copy, in_parallel
from infra.files import is_hidden, user_path
from infra.settings import settings
from infra.storage.safe_names import safe_name
from infra.storage.store import Store, explained_errors, root_store

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo


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
        in_parallel(lambda path: _push(store, path), changed)
        for path in before.keys() - after.keys():
            with explained_errors():
                store.files.delete_file(_place(store, path))


def pull(folder: Path) -> None:
    """Make a folder, or a file, equal to the one at the root's address.

    Do not call it within a block of `shared_folder`: it waits for that.
    """
    store = root_store()
    if store is not None:
        with _locked():
            _pull_all(store, folder)


def _locked() -> AbstractContextManager[None]:
    """Keep other processes of this machine out: one that pulls a folder would remove the files that
    another one has written to it and not published yet."""
    return exclusive_lock(
        settings().root.resolve() / "locks" / "shared-folders",
        "Another run is publishing files; waiting for it to finish.",
    )


def _pull_all(store: Store, folder: Path) -> None:
    shared = _shared_files(store, folder)
    here = _files(folder)
    in_parallel(
        lambda path: _pull(store, path, shared[path]),
        [path for path, state in shared.items() if here.get(path) != state],
    )
    for path in here.keys() - shared.keys():
        path.unlink(missing_ok=True)


def shared_folders(folder: str) -> set[str]:
    """The names of the folders in a folder at the root's address.

    Raises:
        UserError: one of them could lead out of the folder.
    """
    from pyarrow.fs import FileSelector, FileType

    store = root_store()
    if store is None:
        return set()
    with explained_errors():
        infos = store.files.get_file_info(FileSelector(store.path(folder), allow_not_found=True))
    return {
        safe_name(info.base_name, f"{settings().address}/{folder}")
        for info in infos
        if info.type == FileType.Directory
    }


def remove_shared(folder: Path) -> None:
    """Remove a folder from the root's address; of a stage, the manifest first."""
    store = root_store()
    if store is not None:
        place = _place(store, folder)
        for remove, path in (
            (store.files.delete_file, f"{place}/{MANIFEST}"),
            (store.files.delete_dir, place),
        ):
            with explained_errors(), suppress(FileNotFoundError):
                remove(path)


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


def shown_path(path: Path) -> str:
    """A path as other machines know it: the address of a file below a root that has one."""
    address, root = settings().address, settings().root.resolve()
    return f"{address}/{path.relative_to(root).as_posix()}" if address else str(path)


State = tuple[int, int]  # size in bytes, and time of the last change in seconds


def _files(folder: Path) -> dict[Path, State]:
    """The files of a folder without hidden ones."""
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
    from pyarrow.fs import FileSelector, FileType

    def state(info: "FileInfo") -> State:
        return info.size or 0, (info.mtime_ns or 0) // 10**9

    place = _place(store, folder)
    with explained_errors():
        itself = store.files.get_file_info(place)
        if itself.type == FileType.File:
            return {folder: state(itself)}
        selector = FileSelector(place, recursive=True, allow_not_found=True)
        infos = store.files.get_file_info(selector)
    files = {
        safe_name(info.path.removeprefix(f"{place}/"), shown_path(folder)): state(info)
        for info in infos
        if info.type == FileType.File
    }
    return {folder / name: s for name, s in files.items() if not is_hidden(PurePosixPath(name))}


def _pull(store: Store, path: Path, state: State) -> None:
    """Copy a file from the store, unless another machine has just removed it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        copy(store, _place(store, path), unfinished, upload=False)
    except FileNotFoundError:
        for left in (path, unfinished):
            left.unlink(missing_ok=True)
        return
    os.utime(unfinished, (state[1], state[1]))
    unfinished.replace(path)


def _push(store: Store, path: Path) -> None:
    """Copy a file to the store, and give it the time that it has there."""
    copy(store, _place(store, path), path, upload=True)
    with explained_errors():
        info = store.files.get_file_info(_place(store, path))
    seconds = (info.mtime_ns or 0) // 10**9
    os.utime(path, (seconds, seconds))


def _place(store: Store, path: Path) -> str:
    return store.path(*path.relative_to(settings().root.resolve()).parts)
