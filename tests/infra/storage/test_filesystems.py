"""pyarrow's file systems: atomic writes to local files, also in the processes of Ray."""

import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs
import pytest

from infra.storage.filesystems import atomic_local_filesystem, persistent_s3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with an earlier content."""
    (tmp_path / "list.json").write_text("old")
    return tmp_path / "list.json"


def test_partial_write_keeps_the_old_file(path: Path) -> None:
    abandoned = atomic_local_filesystem().open_output_stream(str(path))
    abandoned.write(b"n")
    del abandoned
    assert path.read_text() == "old"
    stream = atomic_local_filesystem().open_output_stream(str(path))
    stream.write(b"n")
    stream.flush()
    assert path.read_text() == "old"
    stream.write(b"ew")
    stream.close()
    assert path.read_text() == "new"


def test_copy_is_atomic_and_creates_folders(path: Path) -> None:
    files, target = atomic_local_filesystem(), path.parent / "new" / "folder" / "file"
    pyarrow.fs.copy_files(str(path), str(target), files, files)
    assert target.read_text() == "old"
    path.write_text("n" * 100)
    with pytest.raises(OSError, match="too large"), room_for(50):
        pyarrow.fs.copy_files(str(path), str(target), files, files)
    assert target.read_text() == "old" and list(target.parent.iterdir()) == [target]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Limit files to `size` bytes; writes beyond it fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("parts", [[100], [40, 60], [30_000, 20_000], [40, 60, 20_000]])
def test_failed_write_keeps_the_old_file(path: Path, parts: list[int]) -> None:
    with (
        pytest.raises(OSError, match="too large"),
        room_for(50),
        atomic_local_filesystem().open_output_stream(str(path)) as stream,
    ):
        for part in parts:
            stream.write(b"n" * part)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_folders_are_copied_in_and_out(tmp_path: Path) -> None:
    """Ray Train copies checkpoints like this, in processes that unpickle the file system."""
    source, files = tmp_path / "source", pickle.loads(pickle.dumps(atomic_local_filesystem()))
    (source / "below").mkdir(parents=True)
    (source / "below" / "weights").write_bytes(bytes(range(256)) * 999)
    (source / "numbers").write_text("{}")
    kept, back = str(tmp_path / "kept"), str(tmp_path / "back")
    files.create_dir(kept)
    pyarrow.fs.copy_files(str(source), kept, destination_filesystem=files)
    pyarrow.fs.copy_files(kept, back, source_filesystem=files)
    for folder in (kept, back):
        names = {p.relative_to(folder).as_posix() for p in Path(folder).rglob("*") if p.is_file()}
        assert names == {"numbers", "below/weights"}
    assert (Path(back) / "below" / "weights").read_bytes() == bytes(range(256)) * 999


def test_s3_keeps_its_retries_in_other_processes() -> None:
    files = persistent_s3(pyarrow.fs.S3FileSystem(region="eu-west-1", endpoint_override="host:1"))
    copy = pickle.loads(pickle.dumps(files))
    assert type(copy) is type(files) is not pyarrow.fs.S3FileSystem
    assert copy.equals(files)
    assert copy.region == "eu-west-1"
