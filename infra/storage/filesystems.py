"""File systems for pyarrow: a local one with atomic writes, and S3 that repeats failed requests.

Both work in other processes, to which Ray sends them.
"""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import AwsDefaultS3RetryStrategy, FSSpecHandler, PyFileSystem, S3FileSystem

from infra.atomic_files import atomic_file

# With the pauses of the AWS SDK between them, these requests outlast an outage of 50 seconds.
S3_ATTEMPTS = 11


def persistent_s3(files: S3FileSystem) -> S3FileSystem:
    """The same file system, but it repeats failed requests; pyarrow makes at most three."""
    return _with_retries(*files.__reduce__()[1])


class _PersistentS3(S3FileSystem):
    def __reduce__(self) -> Any:
        # pyarrow's own way makes an S3FileSystem, without the retry strategy.
        return _with_retries, super().__reduce__()[1]


def _with_retries(options: dict[str, Any]) -> S3FileSystem:
    return _PersistentS3(**options, retry_strategy=AwsDefaultS3RetryStrategy(S3_ATTEMPTS))


class _AtomicFile:
    """An output file that gets its name when it is closed, and is removed if a write fails."""

    def __init__(self, path: str) -> None:
        self.writing = atomic_file(Path(path))
        self.file = self.writing.__enter__()

    @property
    def closed(self) -> bool:
        """Whether it was renamed to its final name, or writing failed."""
        return self.file.closed

    def write(self, data: Any) -> int:
        """Write all of these bytes."""
        try:
            return self.file.write(data)
        except OSError as error:  # for example a full disk
            self.writing.__exit__(type(error), error, error.__traceback__)
            raise

    def flush(self) -> None:
        """Do nothing: the file is readable only once it is complete."""

    def close(self) -> None:
        """Sync the file to disk, and rename it to its final name."""
        if not self.closed:
            self.writing.__exit__(None, None, None)


class _AtomicHandler(FSSpecHandler):
    def open_output_stream(self, path: str, metadata: Any) -> Any:
        # Not an IOBase: its finaliser would close, and so rename, an abandoned file.
        return pa.PythonFile(_AtomicFile(path), mode="w")  # type: ignore[arg-type]

    def copy_file(self, src: str, dest: str) -> None:
        with open(src, "rb") as source, atomic_file(Path(dest)) as target:
            shutil.copyfileobj(source, target)


def atomic_local_filesystem() -> PyFileSystem:
    """The local file system for pyarrow, with atomic writes."""
    return PyFileSystem(_AtomicHandler(LocalFileSystem()))  # type: ignore[abstract]
