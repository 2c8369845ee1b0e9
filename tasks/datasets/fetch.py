"""Fetches files to this machine: those of the catalogs, from a mirror if one is set, and those that
users name by URL or in an object store."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
from pyarrow import fs
from pydantic import BaseModel, field_serializer

from infra.artifacts.locks import exclusive_lock
from infra.artifacts.manifest import sha256_of
from infra.errors import UserError, first_line
from infra.masking import digest_of_keys, mask_secrets
from infra.settings import settings
from tasks.datasets.download import DownloadError, discard, download


class Source(BaseModel, frozen=True):
    """A file: its name, its URL or object URI if it has one, and what is known of its content.

    A file of a catalog has its SHA-256 digest and its size in bytes. If the official digest is
    unknown, only the size (if known) and a zip's own checksums are verified.

    A file that a user names has the `version` of its content instead. That of a file at a URL is
    the server's strong ETag or its Last-Modified. If the server sends neither, it is the time of
    the request, because the content may have changed since any earlier one. The version of an
    object is its size and modification time, because other version data differ by store.

    The dump, which goes into the stage's key and manifest, has the secrets of the URL masked. So a
    new token or signature for the same content does not fetch the file again. A new ?key= does,
    because it may be the name of other content with an equal ETag.
    """

    name: str
    sha256: str | None = None
    bytes: int | None = None
    url: str | None = None
    version: str | None = None

    @field_serializer("url")
    def _masked_url(self, url: str | None) -> str | None:
        return url and mask_secrets(url)

    @field_serializer("version")
    def _version_and_keys(self, version: str | None) -> str | None:
        keys = digest_of_keys(self.url or "")
        return f"{version}, key {keys}" if version and keys else version


def fetch(out: Path, source: Source) -> dict[str, Any]:
    """Write the source's file into `out` and verify it.

    Raises:
        UserError: the file is unavailable, or its content is not the expected one. A partial
            download is kept if the network fails, and the next call resumes it.
    """
    target = out / source.name
    mirrored = _find_in_mirror(source)
    if mirrored is not None:
        shutil.copyfile(mirrored, target)
    origin = mirrored or _fetch_by_url(source, target)
    problem = _problem(source, target)
    if problem:
        target.unlink()
        raise UserError(f"{source.name} from {origin} {problem}")
    return {"bytes": target.stat().st_size}


def _find_in_mirror(source: Source) -> Path | None:
    """The file of that name in the mirror folder, preferably with the right content, or None."""
    folder = settings().mirror_folder
    if folder is None or source.version is not None:
        return None
    if not folder.is_dir():
        raise UserError(f"BIDAFLOW_MIRROR ({folder}) is not a folder. Fix or unset it.")
    candidates = sorted(path for path in folder.rglob(source.name) if path.is_file())
    matching = (path for path in candidates if source.sha256 in (None, sha256_of(path)))
    return next(matching, candidates[0] if candidates else None)


FETCHED, IN_MIRROR, OTHER_SIZE = "fetched", "in the mirror", "in the mirror, other size"
TO_DOWNLOAD, UNAVAILABLE = "to download", "unavailable"
# From the file that is at hand to the one that can't be had.
AVAILABILITIES = (FETCHED, IN_MIRROR, TO_DOWNLOAD, OTHER_SIZE, UNAVAILABLE)


def availability(source: Source) -> str:
    """Where `fetch` would get a catalog's file, as a table cell; reads no content, sends no
    request."""
    if any((settings().root / "stages" / "fetch").glob(f"*/{source.name}")):
        return FETCHED
    if is_in_mirror(source):
        return IN_MIRROR
    if _sizes_in_mirror(source):
        return OTHER_SIZE
    return TO_DOWNLOAD if _urls(source) else UNAVAILABLE


def is_in_mirror(source: Source) -> bool:
    """Whether the mirror folder has a file of that name and size; reads no content."""
    sizes = _sizes_in_mirror(source)
    return bool(sizes) and source.bytes in {None, *sizes}


def _sizes_in_mirror(source: Source) -> set[int]:
    folder = settings().mirror_folder
    return {path.stat().st_size for path in folder.rglob(source.name)} if folder else set()


def _urls(source: Source) -> list[str]:
    mirror = None if settings().mirror_folder else settings().mirror
    mirrored = f"{mirror.rstrip('/')}/{source.name}" if mirror else None
    return [url for url in (mirrored, source.url) if url]


def _fetch_by_url(source: Source, target: Path) -> str:
    """Copy the file to `target` from the first URL that has it; return this URL."""
    if source.version is not None and source.url is not None:
        with explained_errors(source.url):
            _copy(source.url, target)
        return source.url
    reasons = []
    for url in _urls(source):
        try:
            _copy(url, target)
        except DownloadError as error:
            reasons.append(str(error))
        else:
            return url
    if not reasons:
        raise UserError(
            f"{source.name} has no official URL. Put the file into a folder and set "
            "BIDAFLOW_MIRROR to that folder."
        )
    raise UserError(
        f"{source.name} could not be downloaded ({'; '.join(reasons)}). Download "
        f"{source.url or source.name} by hand into a folder and set BIDAFLOW_MIRROR to that folder."
    )


def _copy(url: str, target: Path) -> None:
    """Copy a file to `target`; a download goes on with what an earlier call has received."""
    if not is_http_url(url):
        store, path = fs.FileSystem.from_uri(url)
        fs.copy_files(path, str(target), store, fs.LocalFileSystem())
        return
    partial = downloads_folder() / f"{sha256(url.encode()).hexdigest()[:16]}-{target.name}"
    message = "Another run is downloading this file; waiting for it to finish."
    with exclusive_lock(partial.with_name(f"{partial.name}.lock"), message):
        download(url, partial)
        partial.replace(target)
        discard(partial)  # its validator file is still there


def is_http_url(uri: str) -> bool:
    """Whether a URI is a URL of a web server."""
    return re.match(r"https?://", uri, re.IGNORECASE) is not None


@contextmanager
def explained_errors(uri: str) -> Iterator[None]:
    """Turn the errors of servers and stores within the block into UserErrors."""
    try:
        yield
    except DownloadError as error:
        raise UserError(
            f"{error}. Check the URL, or download the file and give the path of the copy."
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{uri} can't be read: {first_line(error)}. Check the URI, the network and the "
            "credentials, or copy the files and give the path of the copies."
        ) from error


def downloads_folder() -> Path:
    """The folder for downloads until they are complete; created if it is missing."""
    folder = settings().root.resolve() / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _problem(source: Source, file: Path) -> str | None:
    """What is wrong with the file's content, and what to do; None if it is as expected."""
    size = file.stat().st_size
    actual, expected = f"{size} bytes", f"{source.bytes or size} bytes"
    if source.sha256 is not None:
        actual, expected = f"SHA-256 {sha256_of(file)}", f"SHA-256 {source.sha256}"
    if actual != expected:
        return (
            f"has {actual}, expected {expected}. The file is damaged or another version; fetch it "
            "again."
        )
    if source.sha256 is None and source.version is None and source.name.endswith(".zip"):
        with ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged:
            return f"is damaged: member {damaged} fails its checksum. Fetch the file again."
    return None
