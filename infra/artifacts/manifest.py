"""A stage's manifest: inputs, code, versions, and SHA-256 digests of everything it wrote."""

import hashlib
import json
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from infra.errors import UserError
from infra.files import archive_of
from infra.settings import CHECKOUT, settings
from infra.storage.safe_names import safe_name

# Dependencies whose version can change a result.
DEPENDENCIES = ("gensim", "mlflow", "numpy", "prefect", "pyarrow", "ray", "torch")
MANIFEST = "manifest.json"
TABLE_FORMATS: dict[str, Literal["parquet", "arrow"]] = {".parquet": "parquet", ".arrow": "arrow"}
Manifest = dict[str, Any]
Facts = dict[str, Any]


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


def git_commit() -> str | None:
    """The checkout's commit, with "-dirty" if files differ from it; None if git finds none."""
    try:
        return subprocess.check_output(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=CHECKOUT,
            stderr=subprocess.DEVNULL,
            text=True,
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def package_versions() -> dict[str, str]:
    """Versions of Python and of the dependencies that can change a result."""
    return {"python": platform.python_version(), **{name: version(name) for name in DEPENDENCIES}}


def stages_folder() -> Path:
    """The folder of all stage outputs, which are in <stage>/<key>/."""
    return settings().root.resolve() / "stages"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a stage's folder."""
    return dict(json.loads((folder / MANIFEST).read_bytes()))


class _PublishedFile(BaseModel, strict=True):
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class _PublishedManifest(BaseModel):
    files: dict[str, _PublishedFile]


def parse_manifest(content: bytes, address: str) -> Manifest:
    """The manifest of a stage that another machine has published at an address.

    Its names become paths here, so none may lead out of the stage's folder.

    Raises:
        UserError: it is not a manifest, or has an invalid name, digest or size.
    """
    try:
        manifest = json.loads(content)
        _PublishedManifest.model_validate(manifest)
    except ValueError as error:  # also pydantic's, of which the first line has the number
        lines = str(error).splitlines()
        raise UserError(
            f"{address} can't be used: {' '.join(lines[1:3] or lines)}. Nothing was written. Check "
            "who may write to the store, and remove the folder from it, so that the stage is built "
            "again."
        ) from error
    for name in manifest["files"]:
        safe_name(name, address)
    return dict(manifest)


def facts_of(folder: Path) -> Facts:
    """The facts that a stage recorded about the folder it wrote."""
    return dict(read_manifest(folder)["facts"])


def content_digest(path: Path) -> str:
    """Digest of a file's content, or of everything that a stage wrote into its folder.

    The digest of a zip's member covers its name and the content of the whole zip.

    Raises:
        UserError: the path does not exist, or can't be read.
    """
    if path.is_dir():
        return str(read_manifest(path)["digest"])
    archive = archive_of(path)
    file = archive or path
    try:
        digest = sha256_of(file)
    except OSError as error:
        raise UserError(
            f"{file} can't be read ({error.strerror}). Check the path and its permissions."
        ) from error
    return digest_of([path.relative_to(archive).as_posix(), digest]) if archive else digest


def identity(value: Any, path_identity: Callable[[Path], Any] = content_digest) -> Any:
    """The part of an input that counts for the key: its content, never a location or a time."""
    match value:
        case Path():
            return path_identity(value)
        case BaseModel():
            return identity(value.model_dump(), path_identity)
        case Mapping():
            return {str(key): identity(item, path_identity) for key, item in value.items()}
        case list() | tuple():
            return [identity(item, path_identity) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return identity(asdict(value), path_identity)
        case _:
            return value


def origins(inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the origin of each file and folder among the inputs: a stage or an external path."""
    for name, value in inputs.items():
        paths: list[Path] = []
        identity(value, paths.append)
        yield from ({"input": name, **_origin(path)} for path in paths)


def _origin(path: Path) -> dict[str, Any]:
    if not path.is_relative_to(stages_folder()):
        if path.is_dir():
            return {"path": str(path.resolve()), "digest": content_digest(path)}
        file = archive_of(path) or path
        member = {} if file == path else {"member": path.relative_to(file).as_posix()}
        return {"path": str(file.resolve()), **member, **_file_entry(file)}
    stage, key, *inside = path.relative_to(stages_folder()).parts
    file_inside = (
        {"file": "/".join(inside), "sha256": sha256_of(archive_of(path) or path)} if inside else {}
    )
    return {
        "stage": stage,
        "key": key,
        "digest": read_manifest(stages_folder() / stage / key)["digest"],
        **file_inside,
    }


def _file_entry(path: Path) -> dict[str, Any]:
    """Size in bytes and digest of a file, and its number of rows if it holds a table."""
    entry: dict[str, Any] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    if path.suffix in TABLE_FORMATS:
        from pyarrow.dataset import dataset  # imported here, because it takes half a second

        entry["rows"] = dataset(path, format=TABLE_FORMATS[path.suffix]).count_rows()
    return entry


def write_manifest(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write the manifest of a finished stage folder, whose name is the stage's key."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): _file_entry(path) for path in paths}
    manifest = {
        "key": folder.name,
        "digest": digest_of({name: entry["sha256"] for name, entry in files.items()}),
        **fields,
        "git": git_commit(),
        "packages": package_versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": files,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
