"""Stages at the storage root's address, which other machines fetch instead of building them.

A stage is at stages/<stage>/<key>/ below the address: each file under its SHA-256, and
manifest.json, which has the names of the files. The manifest is written last, so a stage with a
manifest is complete. Two runs that publish the same stage never mix their files, and every reader
verifies the digests.

If the storage root is a folder, no stage is published, and `find_manifest` and `find_manifests`
read those that are there.
"""

import json
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from infra.artifacts.locks import exclusive_lock, lock_file
from infra.artifacts.manifest import (
    MANIFEST,
    Manifest,
    hash_file,
    parse_manifest,
    read_manifest,
    stages_folder,
)
from infra.atomic_files import new_folder
from infra.errors import UserError
from infra.run_logger import logger
from infra.settings import settings
from infra.storage.store import Store, in_parallel, local_store, name_of, shown_path, storage


def published(final: Path) -> Manifest | None:
    """The manifest of a stage at the root's address; None if it or one of its files is missing."""
    manifest = _published_manifest(final)
    if manifest is None:
        return None
    infos, files = _place(final).listed(), manifest["files"].values()
    present = {(name, info.size) for name, info in infos.items()}
    if not present.issuperset((entry["sha256"], entry["bytes"]) for entry in files):
        logger().warning(f"{shown_path(final)} lacks some of its files; building the stage again.")
        return None
    return manifest


def fetch(final: Path) -> bool:
    """Copy a stage from the root's address to its folder; returns whether it is there.

    Raises:
        UserError: the manifest is invalid, or a file's content is not what it says.
    """
    manifest = published(final)
    if manifest is None:
        return False
    with new_folder(final) as folder:
        _download(manifest, folder, final)
    return True


def ensure_local(final: Path) -> None:
    """Fetch a stage if its folder is missing here and the stage is at the root's address."""
    if settings().address is not None and not final.exists():
        with exclusive_lock(lock_file(final, "build"), "Another run is fetching this stage."):
            final.exists() or fetch(final)


def publish(folder: Path, final: Path) -> None:
    """Copy a complete folder to the root's address, as the stage of the folder `final`.

    If another run has published the stage meanwhile, its files replace those of the folder, so that
    all machines continue from the same ones.
    """
    manifest = published(final)
    if manifest is not None:
        shutil.rmtree(folder)
        folder.mkdir()
        _download(manifest, folder, final)
    elif settings().address is not None:
        _upload(folder, final)


def republish(finals: Iterable[Path]) -> None:
    """Publish those of these stages again that are not at the root's address any more."""
    if settings().address is not None:
        for final in finals:
            if final.exists() and published(final) is None:
                _upload(final, final)


def find_manifest(final: Path) -> Manifest | None:
    """The manifest of a stage, here or at the root's address; None if the stage is gone."""
    with suppress(FileNotFoundError):
        return read_manifest(final)
    return _published_manifest(final)


def find_manifests() -> dict[Path, Manifest]:
    """The manifests of all stages, here and at the root's address, by their folders on this
    machine, sorted.

    Raises:
        UserError: a name at the address could lead out of the folder of stages.
    """
    here = stages_folder()
    finals = {file.parent for file in here.glob(f"*/[!.]*/{MANIFEST}")}
    if settings().address is not None:
        names = [Path(name) for name in storage().listed("stages") if name.count("/") == 2]
        finals |= {here / name.parent for name in names if name.name == MANIFEST}
    manifests = zip(sorted(finals), in_parallel(find_manifest, sorted(finals)), strict=True)
    return {final: manifest for final, manifest in manifests if manifest is not None}


def _published_manifest(final: Path) -> Manifest | None:
    content = None if settings().address is None else _place(final).read(MANIFEST)
    return None if content is None else parse_manifest(content, f"{shown_path(final)}/{MANIFEST}")


def _place(final: Path) -> Store:
    return storage().below(name_of(final))


def _upload(folder: Path, final: Path) -> None:
    here, there, files = local_store(folder), _place(final), read_manifest(folder)["files"]
    names = {entry["sha256"]: name for name, entry in files.items()}
    in_parallel(lambda digest: here.copy(names[digest], there, digest), names)
    here.copy(MANIFEST, there, MANIFEST)


def _download(manifest: Manifest, folder: Path, final: Path) -> None:
    here, there, files = local_store(folder), _place(final), manifest["files"]

    def get(name: str) -> None:
        digest = files[name]["sha256"]
        there.copy(digest, here, name)
        if hash_file(folder / name) != digest:
            raise UserError(
                f"{name} is damaged: {shown_path(final)}/{digest} has other content than its name "
                "says. Remove that folder from the store, so that the stage is built again."
            )

    in_parallel(get, files)
    text = json.dumps(manifest, indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
