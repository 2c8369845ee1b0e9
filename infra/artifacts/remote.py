"""Stages at the storage root's address, which other machines fetch instead of building them.

A stage is at stages/<stage>/<key>/ below the address: each file under its SHA-256, and
manifest.json, which has the names of the files. The manifest is written last, so a stage with a
manifest is complete. Two runs that publish the same stage never mix their files, and every reader
verifies the digests.

All functions but `find_manifest` do nothing if the storage root is a folder.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from infra.artifacts.locks import exclusive_lock, lock_file
from infra.artifacts.manifest import (
    MANIFEST,
    Manifest,
    hash_file,
    parse_manifest,
    read_manifest,
    stages_folder,
)
from infra.artifacts.staging import new_folder
from infra.errors import UserError
from infra.run_logger import logger
from infra.settings import settings
from infra.storage.safe_names import safe_name
from infra.storage.store import Store, explained_errors, root_store

# pyarrow.fs is imported locally: a root that is a folder does not need it.

TRANSFERS = 8  # of files, in parallel

Item = TypeVar("Item")


def is_published(final: Path) -> bool:
    """Whether the stage of a folder is at the root's address."""
    store = root_store()
    return store is not None and _read_published(store, final) is not None


def fetch(final: Path) -> bool:
    """Copy a stage from the root's address to its folder; returns whether it is there.

    Raises:
        UserError: the manifest is invalid, or a file's content is not what it says.
    """
    store = root_store()
    manifest = store and _read_published(store, final)
    if store is None or manifest is None:
        return False
    with new_folder(final) as folder:
        _download(store, final, manifest, folder)
    return True


def find_manifest(final: Path) -> Manifest | None:
    """The manifest of a stage, here or at the root's address; None if the stage is gone."""
    store = root_store()
    with suppress(FileNotFoundError):
        return read_manifest(final) if store is None else _read_manifest(store, final)
    return None


def ensure_local(final: Path) -> None:
    """Fetch a stage if its folder is missing here and the stage is at the root's address."""
    if root_store() is not None and not final.exists():
        with exclusive_lock(lock_file(final, "build"), "Another run is fetching this stage."):
            final.exists() or fetch(final)


def publish(folder: Path, final: Path) -> None:
    """Copy a complete folder to the root's address, as the stage of the folder `final`.

    If another run has published the stage meanwhile, its files replace those of the folder, so that
    all machines continue from the same ones.
    """
    store = root_store()
    if store is None:
        return
    published = _read_published(store, final)
    if published is None:
        _upload(store, folder, final)
        return
    shutil.rmtree(folder)
    folder.mkdir()
    _download(store, final, published, folder)


def republish(finals: Iterable[Path]) -> None:
    """Publish those of these stages again that are not at the root's address any more."""
    store = root_store()
    if store is not None:
        missing = [f for f in finals if f.exists() and _read_published(store, f) is None]
        for final in missing:
            _upload(store, final, final)


def published_stages() -> dict[Path, Manifest]:
    """The manifests of all stages at the root's address, by their folders on this machine."""
    store = root_store()
    if store is None:
        return {}
    places = {stages_folder() / stage / key: (stage, key) for stage, key in _keys(store)}
    manifests: dict[Path, Manifest] = {}

    def read(final: Path) -> None:
        with suppress(FileNotFoundError):  # it has just been removed
            manifests[final] = _read_manifest(store, final)

    in_parallel(read, places)
    return manifests


def _keys(store: Store) -> Iterator[tuple[str, str]]:
    """The names and keys of all stages with a manifest.

    Raises:
        UserError: one of them could lead out of the folder of stages.
    """
    from pyarrow.fs import FileSelector

    with explained_errors():
        stages = store.path("stages")
        selector = FileSelector(stages, recursive=True, allow_not_found=True)
        for info in store.files.get_file_info(selector):
            if info.base_name == MANIFEST:
                name = info.path.removeprefix(f"{stages}/")
                parts = safe_name(name, f"{settings().address}/stages").split("/")
                if len(parts) == 3:
                    yield parts[0], parts[1]


def _read_manifest(store: Store, final: Path) -> Manifest:
    """The manifest of a stage at the root's address, from the copy here if there is one."""
    with suppress(FileNotFoundError):
        return read_manifest(final)
    return _published_manifest(store, final)


def _published_manifest(store: Store, final: Path) -> Manifest:
    with explained_errors(), store.files.open_input_stream(_place(store, final, MANIFEST)) as file:
        content = file.read()
    return parse_manifest(content, f"{_address(final)}/{MANIFEST}")


def _place(store: Store, final: Path, *names: str) -> str:
    return store.path("stages", final.parent.name, final.name, *names)


def _read_published(store: Store, final: Path) -> Manifest | None:
    """The manifest of a stage at the root's address; None if it or one of its files is missing."""
    from pyarrow.fs import FileSelector, FileType

    with explained_errors():
        selector = FileSelector(_place(store, final), allow_not_found=True, recursive=False)
        infos = store.files.get_file_info(selector)
        sizes = {info.base_name: info.size for info in infos if info.type == FileType.File}
        if MANIFEST not in sizes:
            return None
    manifest = _published_manifest(store, final)
    missing = [
        name
        for name, entry in manifest["files"].items()
        if sizes.get(entry["sha256"]) != entry["bytes"]
    ]
    if missing:
        logger().warning(
            f"{_address(final)} lacks {len(missing)} of its files, among them {missing[0]}; "
            "building the stage again."
        )
        return None
    return manifest


def _download(store: Store, final: Path, manifest: Manifest, folder: Path) -> None:
    def get(item: tuple[str, dict[str, Any]]) -> None:
        name, entry = item
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy(store, _place(store, final, entry["sha256"]), target, upload=False)
        if hash_file(target) != entry["sha256"]:
            raise UserError(
                f"{name} is damaged: {_address(final)}/{entry['sha256']} has other content than "
                "its name says. Remove that folder from the store, so that the stage is built "
                "again."
            )

    in_parallel(get, manifest["files"].items())
    text = json.dumps(manifest, indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _upload(store: Store, folder: Path, final: Path) -> None:
    files = {entry["sha256"]: name for name, entry in read_manifest(folder)["files"].items()}

    def put(item: tuple[str, str]) -> None:
        digest, name = item
        copy(store, _place(store, final, digest), folder / name, upload=True)

    in_parallel(put, files.items())
    copy(store, _place(store, final, MANIFEST), folder / MANIFEST, upload=True)


def copy(store: Store, place: str, file: Path, upload: bool) -> None:
    """Copy a file to its place in the store, or from there."""
    from pyarrow.fs import LocalFileSystem, copy_files

    here, there = (str(file), LocalFileSystem()), (place, store.files)
    (source, source_files), (target, target_files) = (here, there) if upload else (there, here)
    with explained_errors():
        copy_files(source, target, source_files, target_files)


def in_parallel(function: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Call the function for each item, with several transfers at a time."""
    with ThreadPoolExecutor(TRANSFERS) as pool:
        list(pool.map(function, items))


def _address(final: Path) -> str:
    return f"{settings().address}/stages/{final.parent.name}/{final.name}"
