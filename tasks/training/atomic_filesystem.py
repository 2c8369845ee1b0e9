"""A file system on which a file has its name only when it is whole.

Ray Train writes the list of its checkpoints, and their files, in place: a process that is killed
meanwhile would leave a list that cannot be read, and with it a training that cannot go on.
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
    """Written beside its place, and moved there when it is closed and on the disk."""

    def __init__(self, path: str) -> None:
        self.place = Path(path)
        self.part = self.place.with_name(f".{self.place.name}.{os.getpid()}")
        self.file = self.part.open("wb")

    @property
    def closed(self) -> bool:
        """Whether it has its name, or could not be written."""
        return self.file.closed

    def write(self, data: Any) -> int:
        """Write all of these bytes."""
        with self._whole_or_nothing():
            return self.file.write(data)

    def flush(self) -> None:
        """Nothing yet: what is written is read when it is whole."""

    def close(self) -> None:
        """Give the file its name."""
        if self.closed:
            return
        with self._whole_or_nothing():
            self.file.flush()
            os.fsync(self.file.fileno())  # else a machine that crashes may keep the name alone
            self.file.close()
            os.replace(self.part, self.place)

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        """What could not be written, as on a full disk, is removed, and never gets the name."""
        try:
            yield
        except OSError:
            with suppress(OSError):  # it would write the rest
                self.file.close()
            self.part.unlink(missing_ok=True)
            raise


class _WholeFiles(FSSpecHandler):
    def open_output_stream(self, path: str, metadata: Any) -> Any:
        # No IOBase, which would close itself, and so get its name, when it is given up.
        return pa.PythonFile(_NamedWhenWhole(path), mode="w")  # type: ignore[arg-type]


def whole_files() -> PyFileSystem:
    """This machine's files, as a file system for pyarrow that never shows half a file."""
    return PyFileSystem(_WholeFiles(LocalFileSystem()))  # type: ignore[abstract]
