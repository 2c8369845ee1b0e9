"""The store at the storage root's address: an object store, or a shared folder (file://…)."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from infra.errors import UserError, first_line
from infra.settings import settings
from infra.storage.safe_names import safe_name

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

# pyarrow's file systems and fsspec are imported locally: a root that is a folder needs neither.

# How pyarrow's messages name a lack of permissions or wrong credentials.
_NO_ACCESS = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "status 403")

TRANSFERS = 8  # of files, in parallel

Item = TypeVar("Item")
Result = TypeVar("Result")


class Store(NamedTuple):
    """A folder in a file system. Errors that recur, such as a missing bucket, are UserErrors."""

    files: "FileSystem"
    folder: str
    is_local: bool  # the path is one of this machine, too

    def path(self, *names: str) -> str:
        """The path of a file or folder in the folder."""
        return "/".join(filter(None, (self.folder, *names)))

    def below(self, name: str) -> "Store":
        """A folder in the folder."""
        return self._replace(folder=self.path(name))

    def listed(self, name: str = "", recursive: bool = True) -> dict[str, "FileInfo"]:
        """What is in a folder, by the names there; a file itself is "". Empty if it is missing.

        Raises:
            UserError: a name could lead out of the folder, if it was copied to this machine.
        """
        from pyarrow.fs import FileSelector

        place = self.path(name)
        with _explained_errors():
            itself = self.files.get_file_info(place)
            if itself.is_file:
                return {"": itself}
            selector = FileSelector(place, allow_not_found=True, recursive=recursive)
            infos = self.files.get_file_info(selector)
        return {safe_name(info.path.removeprefix(f"{place}/"), place): info for info in infos}

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it is missing."""
        with (
            _explained_errors(),
            suppress(FileNotFoundError, NotADirectoryError),
            self.files.open_input_stream(self.path(name)) as file,
        ):
            return bytes(file.read())
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file."""
        with _explained_errors(), self.files.open_output_stream(self.path(name)) as file:
            file.write(content)

    def copy(self, name: str, target: "Store", target_name: str) -> None:
        """Copy a file to another store.

        Raises:
            FileNotFoundError: it is missing.
        """
        from pyarrow.fs import copy_files

        place = target.path(target_name)
        with _explained_errors():
            copy_files(self.path(name), place, self.files, target.files)

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it exists."""
        place = self.path(name)
        with _explained_errors(), suppress(FileNotFoundError):
            is_file = self.files.get_file_info(place).is_file
            (self.files.delete_file if is_file else self.files.delete_dir)(place)


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


def storage() -> Store:
    """The storage root, at its address or as a folder."""
    return root_store() or local_store(settings().root.resolve())


def name_of(path: Path) -> str:
    """The name of a file or folder below the storage root, here and at its address."""
    return path.relative_to(settings().root.resolve()).as_posix()


def shown_path(path: Path) -> str:
    """A path as other machines know it: the address of a file below a root that has one."""
    address = settings().address
    return f"{address}/{name_of(path)}" if address else str(path)


def checkpoint_storage() -> Store:
    """The folder of the checkpoints of all trainings, which are in <stage key>/."""
    return storage().below("ray")


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


def require_store() -> None:
    """Check that the storage root's address can be written to; does nothing if it is a folder.

    Raises:
        UserError: it can't.
    """
    store, probe = root_store(), f".probe-{token_hex(4)}"
    if store is None:
        return
    try:
        store.write(probe, b"probe")
        store.remove(probe)
    except OSError as error:
        raise UserError(
            f"The storage root {settings().address} does not work: {first_line(error)}. Check the "
            "address, the network, and AWS_ENDPOINT_URL_S3 if the store is not Amazon's."
        ) from error


@contextmanager
def _explained_errors() -> Iterator[None]:
    """Turn an error of the store that recurs, such as a missing bucket, into a UserError."""
    try:
        yield
    except OSError as error:
        message = str(error)
        if "NO_SUCH_BUCKET" in message:
            raise UserError(
                f"The storage root {settings().address} is in a bucket that does not exist. Create "
                "the bucket, or correct BIDAFLOW_ROOT."
            ) from error
        if any(name in message for name in _NO_ACCESS):
            raise UserError(
                f"The storage root {settings().address} refuses access: {first_line(error)}. Check "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do there."
            ) from error
        raise


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results of a function of each item, of several at a time."""
    with ThreadPoolExecutor(TRANSFERS) as pool:
        return list(pool.map(function, items))
