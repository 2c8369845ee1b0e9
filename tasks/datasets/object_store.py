"""Files in object stores: S3, Google Cloud Storage, and any other that pyarrow opens by URI."""

import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs
from pydantic import BaseModel

from infra.errors import UserError


class StoredObject(BaseModel, frozen=True):
    """An object: the URI of its store, its path there, and its version.

    Size and modification time identify the version, because other version data differ by store.
    """

    address: str
    path: str
    bytes: int
    modified_ns: int | None

    @property
    def name(self) -> str:
        """The file name, without folders."""
        return PurePosixPath(self.path).name


def is_uri(name_or_uri: str) -> bool:
    """Whether a name begins with a URI scheme, such as s3://bucket/folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", name_or_uri) is not None


def find_objects(uri: str) -> list[StoredObject]:
    """The object at a URI, those below a folder (recursively), or those that match a *.

    Raises:
        UserError: there are none, the URI contains a password, or the store can't be opened or
            denies access; the message says why.
    """
    if urlsplit(uri).password is not None:
        raise UserError(
            "The URI of a data file contains a password. Set the credentials as environment "
            "variables instead, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    try:
        objects = _list_objects(uri)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(uri, error) from error
    if not objects:
        raise UserError(f"No files found at {uri}. Check the URI.")
    return objects


def _list_objects(uri: str) -> list[StoredObject]:
    location, mark, query = uri.partition("?")
    folder = location.partition("*")[0].rpartition("/")[0] if "*" in location else location
    store, path = fs.FileSystem.from_uri(folder + mark + query)
    info: Any = store.get_file_info(path)
    infos = [info]
    if info.type == fs.FileType.Directory:
        infos = store.get_file_info(fs.FileSelector(path, recursive=True))
    pattern = f"{path}{location[len(folder) :]}"
    return [
        StoredObject(
            address=folder + mark + query, path=i.path, bytes=i.size, modified_ns=i.mtime_ns
        )
        for i in sorted(infos, key=lambda info: info.path)
        if i.type == fs.FileType.File
        and ("*" not in location or PurePosixPath(i.path).match(pattern))
    ]


def fetch_object(out: Path, stored: StoredObject) -> dict[str, Any]:
    """Copy an object into `out`, under its name.

    Raises:
        UserError: the store can't be opened or denies access; the message says why.
    """
    try:
        store, _ = fs.FileSystem.from_uri(stored.address)
        with (
            store.open_input_stream(stored.path, compression=None) as source,
            (out / stored.name).open("wb") as file,
        ):
            shutil.copyfileobj(source, file, 1 << 20)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(stored.address, error) from error
    return {"bytes": stored.bytes}


def _unreadable(uri: str, error: Exception) -> UserError:
    reason = str(error).partition("\n")[0].rstrip(".")
    return UserError(
        f"{uri} can't be read: {reason}. Check the URI, the network and the credentials, or copy "
        "the files and give the path of the copies."
    )
