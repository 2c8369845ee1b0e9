"""Hard links between equal files, which then take disk space once.

Each of the names keeps the content if the others are removed, so no file depends on another one.
Linked files must be replaced as a whole, never written in place.
"""

import filecmp
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex


def link_to_equal(file: Path, others: Iterable[Path]) -> None:
    """Make `file` a hard link to the first of the others that has the same content; it stays as it
    is if there is none, or if the file system does not allow the link."""
    for other in others:
        # It may be removed meanwhile, or be on another file system.
        with suppress(OSError):
            if filecmp.cmp(file, other, shallow=False):
                _link(file, other)
                return


def _link(file: Path, other: Path) -> None:
    temporary = file.with_name(f".{file.name}.{token_hex(4)}")
    try:
        os.link(other, temporary)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
