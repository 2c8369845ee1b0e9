"""SHA-256 digests of files and of JSON values."""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """Hexadecimal digest of a file's content, cached until the file changes."""
    status = path.stat()
    return _sha256(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _sha256(path: Path, inode: int, size: int, modified: int) -> str:
    return hash_file(path)


def hash_file(path: Path) -> str:
    """Hexadecimal digest of a file's content, never cached."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """Hexadecimal digest of a JSON value in canonical form."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
