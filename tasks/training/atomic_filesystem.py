"""A file system with atomic writes: a file gets its name only when it is complete.

Ray Train writes checkpoint files and the list of checkpoints in place. A process that is killed
during a write would leave an unreadable list, from which training could not resume.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem


class _AtomicFile:
    """An output file with a temporary name, which is renamed once it is closed and synced."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        self.file = self.temporary.open("wb")

    @property
    def closed(self) -> bool:
        """Whether it was renamed to its final name, or writing failed."""
        return self.file.closed

    def write(self, data: Any) -> int:
        """Write all of these bytes."""
        with self._discard_on_error():
            return self.file.write(data)

    def flush(self) -> None:
        """Do nothing: the file is readable only once it is complete."""

    def close(self) -> None:
        """Sync the file to disk, and rename it to its final name."""
        if self.closed:
            return
        with self._discard_on_error():
            self.file.flush()
            os.fsync(self.file.fileno())  # else a system crash may leave an empty file
            self.file.close()
            os.replace(self.temporary, self.path)

    @contextmanager
    def _discard_on_error(self) -> Iterator[None]:
        """Remove the temporary file on a write error, for example on a full disk."""
        try:
            yield
        except OSError:
            with suppress(OSError):  # closing flushes, and may fail too
                self.file.close()
            self.temporary.unlink(missing_ok=True)
            raise


class _AtomicHandler(FSSpecHandler):
    def open_output_stream(self, path: str, metadata: Any) -> Any:
        # Not an IOBase: its finaliser would close, and so rename, an abandoned file.
        return pa.PythonFile(_AtomicFile(path), mode="w")  # type: ignore[arg-type]


def atomic_local_filesystem() -> PyFileSystem:
    """The local file system for pyarrow, with atomic writes."""
    return PyFileSystem(_AtomicHandler(LocalFileSystem()))  # type: ignore[abstract]
