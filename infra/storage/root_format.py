"""The format of a storage root: what later releases must still be able to read."""

import json
from functools import cache

from infra.atomic_files import write_atomically
from infra.errors import UserError
from infra.settings import settings
from infra.storage.store import root_store

FORMAT = "1.0"
FILE = "format.json"
# A root that has been used has one of these.
CONTENTS = (
    *("stages", "mlflow.db", "mlartifacts", "reports", "embeddings", "newest", "ray"),
    *("deployments.json", "services.json"),
)


def require_format() -> None:
    """Check once a process that this release can read the storage root; give a new one the format.

    Raises:
        UserError: the root has another format, or has results but no format.
    """
    _require_format(settings().address or str(settings().root.resolve()))


@cache
def _require_format(root: str) -> None:
    """Check the current root, which is the cache's key."""
    if read_format() is None:
        _write(json.dumps({"format": FORMAT}) + "\n")


def read_format() -> str | None:
    """The format of the storage root; None if it is new, also if it has the user's own files.

    Raises:
        UserError: this release can't read the root.
    """
    content = _read()
    if content is None and _has_contents():
        content = _read()  # another process may just have created the root
        if content is None:
            raise _other_release("no format")
    found = None if content is None else _format_in(content)
    if found not in (None, FORMAT):
        raise _other_release(f"format {found}")
    return found


def _format_in(content: bytes) -> str:
    try:
        return str(json.loads(content)["format"])
    except (ValueError, LookupError, TypeError):
        return "unknown"


def _other_release(found: str) -> UserError:
    root = settings().root.resolve()
    place, kind = settings().address, "address"
    if place is None:
        place, kind = str(root), "folder"
    readable = ""
    if kind == "folder" and (root / "mlflow.db").exists():
        command = f"mlflow server --backend-store-uri sqlite:///{root}/mlflow.db"
        readable = f" Its MLflow runs stay readable: {command}"
    return UserError(
        f"The storage root {place} is of another release: it has {found}, this one reads format "
        f"{FORMAT}. To start anew, set BIDAFLOW_ROOT to a new {kind}, or move the old one away."
        f"{readable}"
    )


def _read() -> bytes | None:
    """The content of the root's file; None if it is missing."""
    if store := root_store():
        return store.read(FILE)
    try:
        return (settings().root / FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise UserError(
            f"{error.filename} can't be read: {error.strerror}. Change its permissions, or set "
            "BIDAFLOW_ROOT to another folder."
        ) from error


def _has_contents() -> bool:
    if store := root_store():
        return not store.listed(recursive=False).keys().isdisjoint(CONTENTS)
    return any((settings().root / name).exists() for name in CONTENTS)


def _write(content: str) -> None:
    if store := root_store():
        store.write(FILE, content.encode())
    else:
        write_atomically(settings().root / FILE, content)
