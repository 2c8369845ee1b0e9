"""The store at the storage root's address: an object store, or a shared folder (file://…)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

from infra.errors import UserError, first_line
from infra.settings import settings
from infra.storage.safe_names import safe_name

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

# pyarrow's file systems and fsspec are imported locally: a root that is a folder needs neither.

# How pyarrow's messages name a lack of permissions or wrong credentials.
_NO_ACCESS = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "status 403")


class Store(NamedTuple):
    """A folder in a file system."""

    files: "FileSystem"
    folder: str
    is_local: bool  # the path is one of this machine, too

    def path(self, *names: str) -> str:
        """The path of a file or folder in the folder."""
        return "/".join((self.folder, *names))

    def below(self, name: str) -> "Store":
        """A folder in the folder."""
        return self._replace(folder=self.path(name))

    def has(self, name: str) -> bool:
        """Whether a file or folder exists."""
        return self.files.get_file_info(self.path(name)).type.name != "NotFound"

    def require_safe_names(self, name: str) -> None:
        """Check the names in a folder, before Ray copies its files to this machine.

        Raises:
            UserError: one of them could lead out of the folder here.
        """
        from pyarrow.fs import FileSelector

        folder = self.path(name)
        infos = self.files.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
        for info in infos:
            safe_name(info.path.removeprefix(f"{folder}/"), folder)

    def remove_folder(self, name: str) -> None:
        """Remove a folder, if it exists."""
        if self.has(name):
            self.files.delete_dir(self.path(name))


def local_store(folder: Path) -> Store:
    """A folder of this machine, in which a file has its name only when it is complete."""
    from infra.storage.filesystems import atomic_local_filesystem

    return Store(atomic_local_filesystem(), str(folder), is_local=True)


def root_store() -> Store | None:
    """The store at the storage root's address; None if the root is a folder.

    Raises:
        UserError: the address can't be interpreted.
    """
    address = settings().address
    return _open(address, os.environ.get("AWS_ENDPOINT_URL_S3")) if address else None


def checkpoint_storage() -> Store:
    """The folder of the checkpoints of all trainings, which are in <stage key>/."""
    return (root_store() or local_store(settings().root.resolve())).below("ray")


@cache
def _open(address: str, endpoint: str | None) -> Store:
    """The store at an address; pyarrow reads the endpoint from the environment, the cache key."""
    import pyarrow as pa
    from pyarrow import fs

    from infra.storage.filesystems import persistent_s3

    try:
        files, folder = fs.FileSystem.from_uri(address)
        if not folder:
            raise ValueError("it names no bucket")
    except (pa.ArrowException, OSError, ValueError, ImportError) as error:
        raise UserError(
            f"BIDAFLOW_ROOT ({address}) is not a usable address: {first_line(error)}. Expected a "
            "folder, or an address such as s3://bucket/folder."
        ) from error
    if isinstance(files, fs.LocalFileSystem):
        return local_store(Path(folder))
    if isinstance(files, fs.S3FileSystem):
        files = persistent_s3(files)
    return Store(files, folder.rstrip("/"), is_local=False)


@contextmanager
def explained_errors() -> Iterator[None]:
    """Turn an error of the store that recurs, such as a missing bucket, into a UserError."""
    try:
        yield
    except OSError as error:
        if _problem(error):
            raise _user_error(error) from error
        raise


def require_store() -> None:
    """Check that the storage root's address can be written to; does nothing if it is a folder.

    Raises:
        UserError: it can't.
    """
    store = root_store()
    if store is None:
        return
    probe = store.path(f".probe-{token_hex(4)}")
    try:
        with store.files.open_output_stream(probe) as file:
            file.write(b"probe")
        store.files.delete_file(probe)
    except OSError as error:
        raise _user_error(error) from error


def _user_error(error: OSError) -> UserError:
    problem = _problem(error) or (
        f"does not work: {first_line(error)}. Check the address, the network, and "
        "AWS_ENDPOINT_URL_S3 if the store is not Amazon's"
    )
    return UserError(f"The storage root {settings().address} {problem}.")


def _problem(error: OSError) -> str | None:
    """The end of a sentence that has the problem and the remedy; None if a retry may work."""
    message = str(error)
    if "NO_SUCH_BUCKET" in message:
        return "is in a bucket that does not exist. Create the bucket, or correct BIDAFLOW_ROOT"
    if any(name in message for name in _NO_ACCESS):
        return (
            f"refuses access: {first_line(error)}. Check AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, and what they may do there"
        )
    return None
