"""The content of a whole folder."""

from hashlib import sha256
from pathlib import Path


def tree_digests(folder: Path) -> dict[str, str]:
    """The digest of each file below a folder, by its path there."""
    return {
        file.relative_to(folder).as_posix(): sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }
