"""A file system on which a file has its name only when it is whole.

Ray Train writes the list of its checkpoints, and their files, in place: a process that is killed
meanwhile would leave a list that cannot be read, and with it a training that cannot go on.
"""

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem


class _NamedWhenWhole(io.FileIO):
    """Written beside its place, and moved there when it is closed."""

    def __init__(self, path: str) -> None:
        self.place = Path(path)
        super().__init__(self.place.with_name(f".{self.place.name}.{os.getpid()}"), "wb")

    def close(self) -> None:
        """Give the file its name."""
        if not self.closed:
            super().close()
            os.replace(self.name, self.place)


class _WholeFiles(FSSpecHandler):
    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_NamedWhenWhole(path), mode="w")


def whole_files() -> PyFileSystem:
    """This machine's files, as a file system for pyarrow that never shows half a file."""
    return PyFileSystem(_WholeFiles(LocalFileSystem()))  # type: ignore[abstract]
