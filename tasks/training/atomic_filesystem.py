"""A file system with atomic writes: a file gets its name only when it is complete.

Ray Train writes checkpoint files and the list of checkpoints in place. A process that is killed
during a write would leave an unreadable list, from which training could not resume.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem

from infra.atomic_files import atomic_file


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


def atomic_local_filesystem() -> PyFileSystem:
    """The local file system for pyarrow, with atomic writes."""
    return PyFileSystem(_AtomicHandler(LocalFileSystem()))  # type: ignore[abstract]
