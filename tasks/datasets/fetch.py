"""Fetches the files of the catalogs, from a mirror if one is set, else from their URL."""

import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from pydantic import BaseModel

from infra.artifacts.digests import sha256_of
from infra.artifacts.locks import exclusive_lock
from infra.errors import UserError
from infra.run_logger import logger
from infra.settings import settings
from tasks.datasets.download import NotDownloaded, discard, download


class Source(BaseModel, frozen=True):
    """A file: its name, its official URL if it has one, and its SHA-256 digest and size in bytes.

    If the official digest is unknown, only the size (if known) and a zip's own checksums are
    verified.
    """

    name: str
    sha256: str | None = None
    bytes: int | None = None
    url: str | None = None


def fetch(out: Path, source: Source) -> dict[str, Any]:
    """Write the source's file into `out` and verify it.

    Raises:
        UserError: the file is unavailable, or its content is not the expected one. A partial
            download is kept if the network fails, and the next call resumes it.
    """
    target = out / source.name
    mirrored = _mirrored(source)
    if mirrored is not None:
        shutil.copyfile(mirrored, target)
        _verify(source, target, str(mirrored))
    else:
        _download(source, target)
    return {"bytes": target.stat().st_size}


def _mirrored(source: Source) -> Path | None:
    """The file of that name in the mirror folder, preferably with the right content, or None."""
    folder = settings().mirror_folder
    if folder is None:
        return None
    if not folder.is_dir():
        raise UserError(f"BIDAFLOW_MIRROR is {folder}, which is no folder: mend or unset it.")
    found = sorted(path for path in folder.rglob(source.name) if path.is_file())
    right = (path for path in found if source.sha256 in (None, sha256_of(path)))
    return next(right, found[0] if found else None)


def whereabouts(source: Source) -> str:
    """Where `fetch` would get the file, in a few words; reads no content, sends no request."""
    if any((settings().root / "stages" / "fetch").glob(f"*/{source.name}")):
        return "here"
    if is_in_mirror(source):
        return "in the mirror"
    if _sizes_in_mirror(source):
        return "another one in the mirror"
    return "to download" if _addresses(source) else "not here"


def is_in_mirror(source: Source) -> bool:
    """Whether the mirror folder has a file of that name and size; reads no content."""
    sizes = _sizes_in_mirror(source)
    return bool(sizes) and source.bytes in {None, *sizes}


def _sizes_in_mirror(source: Source) -> set[int]:
    folder = settings().mirror_folder
    return {path.stat().st_size for path in folder.rglob(source.name)} if folder else set()


def _addresses(source: Source) -> list[str]:
    mirror = None if settings().mirror_folder else settings().mirror
    mirrored = f"{mirror.rstrip('/')}/{source.name}" if mirror else None
    return [address for address in (mirrored, source.url) if address]


def _download(source: Source, target: Path) -> None:
    reasons = []
    for url in _addresses(source):
        partial = downloads_folder() / f"{sha256(url.encode()).hexdigest()[:16]}-{source.name}"
        with exclusive_lock(partial.with_name(f"{partial.name}.lock"), _tell_of_waiting):
            try:
                download(url, partial)
            except NotDownloaded as error:
                reasons.append(str(error))
                continue
            _verify_or_discard(source, partial, url)
            partial.replace(target)
            discard(partial)  # its validator file is still there
        return
    raise UserError(_by_hand(source, reasons))


def _verify_or_discard(source: Source, partial: Path, url: str) -> None:
    try:
        _verify(source, partial, url)
    except UserError:
        discard(partial)
        raise


def downloads_folder() -> Path:
    """The folder for downloads until they are complete; created if it is missing."""
    folder = settings().root.resolve() / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _tell_of_waiting() -> None:
    logger().info("Another run is downloading it; waiting for that one.")


def _by_hand(source: Source, reasons: list[str]) -> str:
    if not reasons:
        return (
            f"{source.name} has no official address: put it into a folder, and set "
            "BIDAFLOW_MIRROR to that folder."
        )
    return (
        f"{source.name} could not be downloaded ({'; '.join(reasons)}): download "
        f"{source.url or source.name} by hand into a folder, and set BIDAFLOW_MIRROR to that "
        "folder."
    )


def _verify(source: Source, file: Path, origin: str) -> None:
    if source.sha256 is not None:
        found, wanted = f"SHA-256 {sha256_of(file)}", f"SHA-256 {source.sha256}"
    elif source.bytes is not None:
        found, wanted = f"{file.stat().st_size} bytes", f"{source.bytes} bytes"
    else:
        found = wanted = ""
    if found != wanted:
        raise UserError(
            f"{source.name} from {origin} has {found}, not {wanted}: it is damaged or another "
            "version; get it anew."
        )
    if source.sha256 is None and source.name.endswith(".zip"):
        _verify_zip(source, file, origin)


def _verify_zip(source: Source, file: Path, origin: str) -> None:
    with ZipFile(file) as archive:
        broken = archive.testzip()
    if broken:
        raise UserError(
            f"{source.name} from {origin} is damaged: its member {broken} can't be unpacked; get "
            "it anew."
        )
