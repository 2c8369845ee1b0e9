"""The format of a storage root: what later releases must still be able to read."""

import json
import re
from functools import cache

from infra.atomic_files import write_atomically
from infra.errors import UserError
from infra.settings import settings
from infra.storage.mlflow_locations import artifacts_of
from infra.storage.store import root_store

FORMAT = "1.0"
FILE = "format.json"
# A root that has been used has one of these.
CONTENTS = (
    *("stages", "mlflow.db", "mlartifacts", "reports", "embeddings", "newest", "ray"),
    *("deployments.json", "services.json"),
)
# MLflow decodes %2F in the paths of files, URLs of databases end at a question mark, and both have
# no bytes that are not UTF-8.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|\?|[\udc80-\udcff]")


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
        UserError: this release can't read the root, or MLflow would misread its path.
    """
    _require_plain_path()
    content = _read()
    if content is None and _has_contents():
        content = _read() or b"{}"  # else, another process has just created the root
    if content is not None and _format_in(content) != f"format {FORMAT}":
        raise _other_release(_format_in(content))
    return None if content is None else FORMAT


def _require_plain_path() -> None:
    folders = {"BIDAFLOW_CACHE" if settings().address else "BIDAFLOW_ROOT": settings().root}
    if settings().tracking_uri.startswith("sqlite:"):
        folders["BIDAFLOW_MLFLOW_TRACKING_URI"] = artifacts_of(settings().tracking_uri).parent
    for variable, folder in folders.items():
        if found := _MISREAD.search(str(folder.resolve())):
            raise UserError(
                f"The path of the folder {str(folder)!a} contains {found[0]!a}, which "
                f"MLflow would misread. Rename the folder, or set {variable} to another one."
            )


def _format_in(content: bytes) -> str:
    try:
        return f"format {json.loads(content)['format']}"
    except (ValueError, LookupError, TypeError):
        return "no format"


def _other_release(found: str) -> UserError:
    address, root, readable = settings().address, settings().root.resolve(), ""
    kind = "folder" if address is None else "address"
    if address is None and (root / "mlflow.db").exists():
        command = f"mlflow server --backend-store-uri sqlite:///{root}/mlflow.db"
        readable = f" Its MLflow runs stay readable: {command}"
    return UserError(
        f"The storage root {address or root} is of another release: it has {found}, this one reads "
        f"format {FORMAT}. To start anew, set BIDAFLOW_ROOT to a new {kind}, or move the old one "
        f"away.{readable}"
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
