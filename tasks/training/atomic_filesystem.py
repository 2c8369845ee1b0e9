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


class _NamedWhenWhole:
    """An output file with a temporary name, which is renamed once it is closed and synced."""

    def __init__(self, path: str) -> None:
        self.place = Path(path)
        self.part = self.place.with_name(f".{self.place.name}.{os.getpid()}")
        self.file = self.part.open("wb")

    @property
    def closed(self) -> bool:
        """Whether it was renamed to its final name, or writing failed."""
        return self.file.closed

    def write(self, data: Any) -> int:
        """Write all of these bytes."""
        with self._whole_or_nothing():
            return self.file.write(data)

    def flush(self) -> None:
        """Do nothing: the file is readable only once it is complete."""

    def close(self) -> None:
        """Sync the file to disk, and rename it to its final name."""
        if self.closed:
            return
        with self._whole_or_nothing():
            self.file.flush()
            os.fsync(self.file.fileno())  # else a system crash may leave an empty file
            self.file.close()
            os.replace(self.part, self.place)

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        """Remove the temporary file on a write error, for example on a full disk."""
        try:
            yield
        except OSError:
            with suppress(OSError):  # closing flushes, and may fail too
                self.file.close()
            self.part.unlink(missing_ok=True)
            raise


class _WholeFiles(FSSpecHandler):
    def open_output_stream(self, path: str, metadata: Any) -> Any:
        # Not an IOBase: its finaliser would close, and so rename, an abandoned file.
        return pa.PythonFile(_NamedWhenWhole(path), mode="w")  # type: ignore[arg-type]


def whole_files() -> PyFileSystem:
    """The local file system for pyarrow, with atomic writes."""
    return PyFileSystem(_WholeFiles(LocalFileSystem()))  # type: ignore[abstract]
