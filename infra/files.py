"""Opens users' files as byte streams: plain files, compressed files and members of zips.

The path of a zip's member leads through the archive: `questions.zip/2026/may.json`. Nothing is ever
unpacked to disk.
"""

import glob
import gzip
import io
import lzma
import math
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path, PurePath, PureWindowsPath
from typing import IO, Any, NamedTuple, NoReturn
from zipfile import BadZipFile, ZipFile, ZipInfo

import pyarrow as pa
import pyarrow.parquet as pq

from infra.containers import container
from infra.errors import UserError

# A zip bomb unpacks to a thousand times its size or more, text to five or ten times. Content that
# exceeds UNPACKED_FREE bytes may be at most UNPACKED_RATIO times as large as it is on disk.
UNPACKED_RATIO = 100
UNPACKED_FREE = 64 << 20

# The folder that Linux's file systems have at their top; only root can read it.
LOST_AND_FOUND = "lost+found"


class _Compression(NamedTuple):
    """A compression format: the first bytes of its files, and how to open them."""

    magic: bytes
    open: Callable[[Any], Any]


_COMPRESSIONS = {
    ".gz": _Compression(b"\x1f\x8b", gzip.open),
    ".xz": _Compression(b"\xfd7zXZ\0", lzma.open),
    ".zst": _Compression(
        b"\x28\xb5\x2f\xfd",
        lambda file: pa.CompressedInputStream(pa.PythonFile(file), "zstd"),
    ),
}

# Gets a file, and the share of it (0 to 1) read so far.
ReportShare = Callable[[Path, float], None]
# The callback for reading progress.
READ_PROGRESS: ContextVar[ReportShare] = ContextVar(
    "read_progress", default=lambda path, share: None
)

_READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile, RuntimeError)


class InvalidPath(UserError, ValueError):
    """A user's path that can't be accessed.

    It is a ValueError, too, so that forms report it with the name of the field.
    """


@contextmanager
def reporting_read_progress(callback: ReportShare) -> Iterator[None]:
    """Use `callback` as the `READ_PROGRESS` callback within the block."""
    token = READ_PROGRESS.set(callback)
    try:
        yield
    finally:
        READ_PROGRESS.reset(token)


def user_path(name: str) -> Path:
    """The path that a user names, with its ~ expanded; it need not exist.

    Raises:
        InvalidPath: it is too long, starts with ~ and an unknown user, or lies in (or is) a folder
            that may not be searched.
    """
    try:
        path = Path(name).expanduser()
        (path / "_").exists()  # unlike `path.exists()`, fails if `path` may not be searched
    except (OSError, RuntimeError) as error:
        raise _inaccessible(name, error) from error
    return path


def _inaccessible(path: str, error: Exception) -> InvalidPath:
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        return InvalidPath(
            f"{path} is a link to {os.readlink(path)}, which does not exist. Fetch the data, for "
            "example by `dvc pull` or `git annex get`."
        )
    return InvalidPath(
        f"{path} can't be read ({_reason(error)}); check the path and its permissions."
    )


def _reason(error: Exception) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error).rstrip(".")


def inner_suffix(path: PurePath) -> str:
    """The suffix that names the format, in lower case: ".json" for "a.json" and "a.JSON.gz"."""
    compressed = path.suffix.lower() in _COMPRESSIONS
    return (path.with_suffix("") if compressed else path).suffix.lower()


def archive_of(path: Path) -> Path | None:
    """The zip that a path leads into, or None."""
    return next((p for p in path.parents if p.suffix.lower() == ".zip" and p.is_file()), None)


def matches(pattern: Path) -> list[Path]:
    """The files and folders that match a glob, sorted; ** matches folders at any depth.

    Raises:
        InvalidPath: one of them can't be read.
    """
    found = [Path(match) for match in sorted(glob.glob(str(pattern), recursive=True))]
    for path in found:
        try:
            path.stat()
        except OSError as error:  # a link that leads to nothing
            raise _inaccessible(str(path), error) from error
    return found


def files_below(folder: Path) -> list[Path]:
    """The files in a folder and its subfolders, sorted, without hidden ones.

    Links to folders are followed, but no folder is read twice.

    Raises:
        InvalidPath: a subfolder can't be read, or a link leads to nothing, such as one of DVC or
            git-annex to data that were not fetched.
    """
    files, seen = list[Path](), set[str]()
    try:
        for parent, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
            place = os.path.realpath(parent)
            shown = (
                name for name in folders if not name.startswith(".") and name != LOST_AND_FOUND
            )
            folders[:] = [] if place in seen else sorted(shown)
            if place not in seen:
                files += [Path(parent, name) for name in names if not name.startswith(".")]
            seen.add(place)
        return sorted(file for file in files if stat.S_ISREG(file.stat().st_mode))
    except OSError as error:
        raise _inaccessible(str(error.filename), error) from error


def _raise(error: OSError) -> NoReturn:
    raise error


def is_hidden(path: PurePath) -> bool:
    """Whether a path names a hidden file, or leads through a hidden folder."""
    return any(part.startswith(".") for part in path.parts)


def members(archive: Path) -> list[Path]:
    """The paths of a zip's files, once each, sorted, without hidden ones and those of macOS.

    Raises:
        UserError: the file is not a zip, or it holds a link or a name that leads outside.
    """
    try:
        paths = _open_zip(archive).members
    except _READ_ERRORS as error:
        raise _unreadable(archive, error) from error
    names = {path: path.relative_to(archive) for path in paths}
    return sorted(p for p, n in names.items() if "__MACOSX" not in n.parts and not is_hidden(n))


def stored_size(path: Path) -> int:
    """Size in bytes of a file or a zip's member as stored, compressed or not; 0 if unreadable."""
    with suppress(*_READ_ERRORS, UserError):
        archive = archive_of(path)
        return _open_zip(archive).member(path).compress_size if archive else path.stat().st_size
    return 0


class BytesRead:
    """Counts the bytes read of some files and of members of zips, by their stored size."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._size = cache(stored_size)
        self.total = sum(map(self._size, set(files)))
        self.done = 0.0
        self._read: dict[Path, float] = {}

    @property
    def share(self) -> float:
        """The share that has been read: above 0, and 1 at the end."""
        return min(max(self.done, 1.0) / max(self.total, 1), 1.0)

    def update(self, file: Path, share: float) -> None:
        """Record that a share (0 to 1) of a file has been read; a smaller share changes nothing."""
        before = self._read.get(file, 0.0)
        self._read[file] = max(share * self._size(file), before)
        self.done += self._read[file] - before


def open_input(path: Path, report: ReportShare | None = None) -> io.BufferedReader:
    """A stream of the file's bytes, decompressed if it begins as gzip, xz or Zstandard does.

    Progress goes to `report`, by default to the `READ_PROGRESS` callback.

    Raises:
        UserError: the file is missing, truncated or damaged, needs a password, unpacks to more
            than UNPACKED_RATIO times its size, or is an archive or a document such as a PDF. Raised
            here or while reading; the message names the file.
    """
    stream: io.BufferedReader = io.BufferedReader(_GuardedStream(path, report), 1 << 20)
    try:
        if kind := container(stream.peek()):
            raise UserError(f"{path}: the file is {kind}")
    except BaseException:
        stream.close()
        raise
    return stream


class _Zip(NamedTuple):
    """An open zip, and its files by their paths, which the zip may spell in another way, such as
    ./a.json."""

    file: ZipFile
    members: dict[Path, ZipInfo]

    def member(self, path: Path) -> ZipInfo:
        """The file at a path. Raises UserError if there is none."""
        if path not in self.members:
            archive = Path(self.file.filename or "")
            names = ", ".join(self.file.namelist()[:5]) or "no files"
            raise UserError(
                f"{archive} does not contain {path.relative_to(archive)} (it contains: {names}); "
                "correct the path."
            )
        return self.members[path]


def _open_zip(archive: Path) -> _Zip:
    """An open zip, which stays open for its other members: to open it reads the names of all."""
    found = archive.stat()
    # A forked process must not share the file's position.
    return _opened_zip(archive, found.st_mtime_ns, found.st_size, os.getpid())


@lru_cache(maxsize=4)
def _opened_zip(archive: Path, changed: int, size: int, process: int) -> _Zip:
    file = ZipFile(archive)
    infos = [info for info in file.infolist() if not info.is_dir()]
    for info in infos:
        name = PureWindowsPath(info.filename)  # its separators are / and \, its root may be C:
        linked = stat.S_ISLNK(info.external_attr >> 16)
        if linked or name.anchor or ".." in name.parts:
            problem = "is a link" if linked else "points outside the archive"
            raise UserError(
                f"{archive}: member {info.filename!r} {problem}; create the archive again without "
                "it."
            )
    return _Zip(file, {archive / i.filename: i for i in infos if Path(i.filename).name})


def _compression_of(path: Path, stream: Any) -> _Compression | None:
    """How a stream is compressed, by its first bytes. If they are neither text nor of a known
    format, the name of the file counts: its reader says that it is damaged or truncated."""
    start = stream.peek(max(len(known.magic) for known in _COMPRESSIONS.values()))
    by_content = next((c for c in _COMPRESSIONS.values() if start.startswith(c.magic)), None)
    by_name = _COMPRESSIONS.get(path.suffix.lower())
    is_text = all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in start[:4])
    if by_name and (not is_text or by_name.magic.startswith(start)):
        return by_content or by_name
    return by_content


def _unreadable(path: Path, error: Exception) -> UserError:
    if isinstance(error, FileNotFoundError):
        return UserError(f"No such file: {path}. Check the path.")
    return UserError(
        f"{path} can't be read ({_reason(error)}); check the path, or download it again."
    )


class _GuardedStream(io.RawIOBase):
    """The bytes of a file, decompressed: read errors become UserErrors, the size is limited, and
    progress is reported."""

    def __init__(self, path: Path, report: ReportShare | None) -> None:
        self._path, self._bytes_read, self._report = path, 0, report or READ_PROGRESS.get()
        self._closing = ExitStack()
        try:
            archive = archive_of(path)
            if archive is None:
                stored: IO[bytes] = path.open("rb")
                self._length = size = path.stat().st_size
            else:
                opened = _open_zip(archive)
                info = opened.member(path)
                stored = opened.file.open(info)
                self._length, size = info.file_size, info.compress_size
            self._stored = self._stream = self._closing.enter_context(stored)
            compression = _compression_of(path, self._stream)
            if compression is not None:
                self._stream = self._closing.enter_context(compression.open(self._stream))
        except _READ_ERRORS as error:
            self._closing.close()
            raise _unreadable(path, error) from error
        packed = compression is not None or archive is not None
        self._limit = max(UNPACKED_FREE, UNPACKED_RATIO * size) if packed else math.inf

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            block = self._stream.read(len(buffer))
        except _READ_ERRORS as error:
            raise _unreadable(self._path, error) from error
        buffer[: len(block)] = block
        self._bytes_read += len(block)
        if self._bytes_read > self._limit:
            raise UserError(
                f"{self._path} unpacks to more than {UNPACKED_RATIO} times its size and may be a "
                "zip bomb. If you trust it, unpack it and pass the unpacked file."
            )
        if self._length:
            self._report(self._path, self._stored.tell() / self._length)
        return len(block)

    def close(self) -> None:
        self._closing.close()
        super().close()


def open_parquet(file: Path | IO[bytes]) -> pq.ParquetFile:
    """Open a Parquet file to be streamed: columns are read in blocks of 1 MB.

    By default, pyarrow reads whole row groups, and a file may consist of a single one.
    """
    return pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)


def row_batches(file: pq.ParquetFile, rows: int, columns: list[str] | None = None) -> Iterator[Any]:
    """Yield record batches of at most `rows` rows.

    Row groups are requested one at a time: of several, pyarrow 25 keeps about 0.6 MB of each one
    that it has read until it has read the last.
    """
    for group in range(file.num_row_groups):
        yield from file.iter_batches(rows, row_groups=[group], columns=columns)
