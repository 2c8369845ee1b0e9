"""Data files at http and https URLs, and in object stores: S3, Google Cloud Storage, and any other
that pyarrow opens by URI."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs
from pydantic import BaseModel, field_serializer

from infra.errors import UserError, first_line
from infra.files import is_hidden
from infra.masking import digest_of_keys, mask_secrets
from infra.storage.safe_names import safe_name
from tasks.datasets.download import DownloadError, discard, download, validator


class RemoteFile(BaseModel, frozen=True):
    """A file at a URL or in an object store, with its file name and the version of its content.

    The version of a file at a URL is the server's strong ETag or its Last-Modified. If the server
    sends neither, it is the time of the request, because the content may have changed since any
    earlier one. The version of an object is its size and modification time, because other version
    data differ by store.

    Its dump, which goes into the stage's key and manifest, has the address with its secrets masked.
    So a new token or signature for the same content does not fetch the file again. A new ?key=
    does, because it may be the name of other content with an equal ETag.
    """

    address: str  # the URL of the file, or the URI of its store
    path: str  # in the store
    name: str
    version: str

    @field_serializer("address")
    def _masked_address(self, address: str) -> str:
        return mask_secrets(address)

    @field_serializer("version")
    def _version_of_key(self, version: str) -> str:
        keys = digest_of_keys(self.address)
        return f"{version}, key {keys}" if keys else version


def is_uri(name_or_uri: str) -> bool:
    """Whether a name begins with a URI scheme, such as s3://bucket/folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", name_or_uri) is not None


def find_remote_files(uri: str) -> list[RemoteFile]:
    """The current version of the file at a URL; or the object at a URI, those below a folder
    (recursively), or those that match a glob, in which ** stands for folders at any depth. Hidden
    objects, and those in hidden folders, are left out.

    Raises:
        UserError: there are none, the URI of an object contains a password, the name of a file
            could lead out of a folder here, or it can't be read; the message says why.
    """
    is_web = _is_http_url(uri)
    if not is_web and urlsplit(uri).password is not None:
        raise UserError(
            "The URI of a data file contains a password. Set the credentials as environment "
            "variables instead, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    with _explained_errors(uri):
        files = [_find_web_file(uri)] if is_web else _list_objects(uri)
    if not files:
        raise UserError(f"No files found at {uri}. Check the URI.")
    return files


def _is_http_url(uri: str) -> bool:
    return re.match(r"https?://", uri, re.IGNORECASE) is not None


def _find_web_file(url: str) -> RemoteFile:
    """The file is named by the last part of the URL's path, with ".json" appended if it has no
    extension."""
    path = unquote(urlsplit(url).path)
    name = PurePosixPath(path).name or "data"
    return RemoteFile(
        address=url,
        path=path,
        name=safe_name(name if "." in name else f"{name}.json", mask_secrets(url)),
        version=validator(url) or f"requested at {time.time_ns()}",
    )


def _list_objects(uri: str) -> list[RemoteFile]:
    location, mark, query = uri.partition("?")
    folder = location.partition("*")[0].rpartition("/")[0] if "*" in location else location
    address = folder + mark + query
    pattern = PurePosixPath(location[len(folder) :].lstrip("/")).parts
    store, path = fs.FileSystem.from_uri(address)
    infos: list[Any] = [store.get_file_info(path)]
    if infos[0].type == fs.FileType.Directory:
        infos = store.get_file_info(fs.FileSelector(path, recursive=True))
    return [
        RemoteFile(
            address=address,
            path=info.path,
            name=safe_name(info.base_name, mask_secrets(address)),
            version=f"{info.size} bytes, modified {info.mtime_ns}",
        )
        for info in sorted(infos, key=lambda info: info.path)
        if info.type == fs.FileType.File
        and not is_hidden(place := PurePosixPath(info.path).relative_to(path))
        and (not pattern or _matches(place.parts, pattern))
    ]


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a glob; ** matches any number of folders.

    `PurePosixPath.match` takes ** for * before Python 3.13.
    """
    if not parts or not pattern:
        return not parts and set(pattern) <= {"**"}
    first, *rest = pattern
    if first == "**":
        return _matches(parts, rest) or _matches(parts[1:], pattern)
    return fnmatchcase(parts[0], first) and _matches(parts[1:], rest)


def fetch_remote_file(out: Path, file: RemoteFile) -> dict[str, Any]:
    """Copy a file into `out`, under its name.

    Raises:
        UserError: the file can't be read; the message says why.
    """
    target = out / file.name
    with _explained_errors(file.address):
        if _is_http_url(file.address):
            unfinished = target.with_name(f"{file.name}.unfinished")
            download(file.address, unfinished)
            unfinished.replace(target)
            discard(unfinished)  # its validator file is still there
        else:
            store, _ = fs.FileSystem.from_uri(file.address)
            fs.copy_files(file.path, str(target), store, fs.LocalFileSystem())
    return {"bytes": target.stat().st_size}


@contextmanager
def _explained_errors(uri: str) -> Iterator[None]:
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
