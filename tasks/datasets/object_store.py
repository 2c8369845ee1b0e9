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
    """An object: the address of its store, its path there, and its version.

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


def is_address(named: str) -> bool:
    """Whether a name begins with a URI scheme, such as s3://bucket/folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", named) is not None


def find_objects(address: str) -> list[StoredObject]:
    """The object at an address, those below a folder (recursively), or those that match a *.

    Raises:
        UserError: there are none, the address contains a password, or the store can't be opened or
            denies access; the message says why.
    """
    if urlsplit(address).password is not None:
        raise UserError(
            "An address of data holds a secret: name the credentials in the environment instead, "
            "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    try:
        found = _list(address)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(address, error) from error
    if not found:
        raise UserError(f"{address} holds no files; check the address.")
    return found


def _list(address: str) -> list[StoredObject]:
    place, mark, query = address.partition("?")
    folder = place.partition("*")[0].rpartition("/")[0] if "*" in place else place
    store, path = fs.FileSystem.from_uri(folder + mark + query)
    info: Any = store.get_file_info(path)
    infos = [info]
    if info.type == fs.FileType.Directory:
        infos = store.get_file_info(fs.FileSelector(path, recursive=True))
    pattern = f"{path}{place[len(folder) :]}"
    return [
        StoredObject(
            address=folder + mark + query, path=i.path, bytes=i.size, modified_ns=i.mtime_ns
        )
        for i in sorted(infos, key=lambda info: info.path)
        if i.type == fs.FileType.File and ("*" not in place or PurePosixPath(i.path).match(pattern))
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


def _unreadable(address: str, error: Exception) -> UserError:
    reason = str(error).partition("\n")[0].rstrip(".")
    return UserError(
        f"{address} can't be read ({reason}): check address, network and credentials, or copy the "
        "files and name the copies."
    )
