"""Atomic writes: other processes, and those after a crash, read the old content or all of the new.

Folders that are renamed as a whole, and several files that replace others together, are not written
with this module: see `infra/artifacts/stage.py` and `tasks/embeddings/formats/export.py`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file whose content replaces that of `path` if the block succeeds.

    Its folder is created if it is missing. Until then the file has a hidden name beside `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not `tempfile`, whose files only their owner can read.
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a system crash may leave an empty file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace the content of `path`, or create the file and its folder; text becomes UTF-8."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
