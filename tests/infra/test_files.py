"""Input files as users provide them: compressed, archived, truncated or malicious."""

import gzip
import io
import lzma
import random
import re
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra import files
from infra.errors import UserError
from infra.files import (
    READ_PROGRESS,
    InvalidPath,
    archive_of,
    files_below,
    inner_suffix,
    matches,
    members,
    open_input,
    stored_size,
    user_path,
)
from tests.factories.permissions import lock

TEXT = "".join(f'{{"id": {i}, "question": "Wäre {i * i} √?"}}\n' for i in range(3000)).encode()


def zstd(content: bytes) -> bytes:
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(content)
    return packed.getvalue().to_pybytes()


def zipped(content: bytes, name: str = "a.json") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "a.json": lambda content: content,
    "a.json.gz": gzip.compress,
    "a.json.xz": partial(lzma.compress, preset=0),
    "a.json.zst": zstd,
    "a.zip": zipped,
}
packers = pytest.mark.parametrize("name", PACKERS)
compressors = pytest.mark.parametrize("name", [name for name in PACKERS if name != "a.json"])


def write(folder: Path, name: str, content: bytes) -> Path:
    """Path of a new file with this content; for a zip, the path of its member."""
    (folder / name).write_bytes(content)
    return folder / name / "a.json" if name == "a.zip" else folder / name


def read(path: Path) -> bytes:
    with open_input(path) as stream:
        return stream.read()


@packers
def test_read_progress_is_reported(name: str, tmp_path: Path) -> None:
    content = random.Random(0).randbytes(5 << 19)  # incompressible, more than two blocks
    path = write(tmp_path, name, PACKERS[name](content))
    reported: list[tuple[Path, float]] = []
    token = READ_PROGRESS.set(lambda *report: reported.append(report))
    try:
        assert read(path) == content
    finally:
        READ_PROGRESS.reset(token)
    shares = [share for _, share in reported]
    assert {file for file, _ in reported} == {path}
    assert len(shares) > 2 and shares == sorted(shares)
    assert 0 < shares[0] < 1 and shares[-1] == 1
    packed = zipfile.ZipFile(tmp_path / name).infolist()[0].compress_size if ".zip" in name else 0
    assert stored_size(path) == (packed or path.stat().st_size)
    assert stored_size(tmp_path / "nowhere") == 0


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.xz", "a.json.zst"])
def test_concatenated_streams_are_read_completely(name: str, tmp_path: Path) -> None:
    pack = PACKERS[name]
    assert read(write(tmp_path, name, pack(TEXT) + pack(b"more"))) == TEXT + b"more"


def test_members_of_a_zip_are_read_side_by_side(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(9)]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in names:
            archive.writestr(name, name)
    found = members(tmp_path / "a.zip")
    with ExitStack() as closing:
        streams = [closing.enter_context(open_input(path)) for path in found]
        assert [stream.read().decode() for stream in reversed(streams)] == names[::-1]
    (tmp_path / "a.zip").write_bytes(zipped(TEXT))
    assert [path.name for path in members(tmp_path / "a.zip")] == ["a.json"], "another file now"


def test_compressed_zip_member_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(gzip.compress(TEXT), "2026/may.json.gz"))
    path = tmp_path / "a.zip" / "2026" / "may.json.gz"
    assert members(tmp_path / "a.zip") == [path]
    assert archive_of(path) == tmp_path / "a.zip"
    assert read(path) == TEXT


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("~nosuchuser/a.json", "Could not determine home directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_unusable_path_is_a_user_error(name: str, reason: str) -> None:
    message = f"{name} can't be read ({reason}); check the path and its permissions."
    with pytest.raises(InvalidPath, match=f"^{re.escape(message)}$"):
        user_path(name)


def test_locked_folder_is_a_user_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock(tmp_path / "locked", monkeypatch)
    for path in (tmp_path / "locked", tmp_path / "locked" / "a.json"):
        with pytest.raises(InvalidPath, match=rf"^{path} can't be read \(Permission denied\)"):
            user_path(str(path))
    assert user_path(str(tmp_path / "gone")) == tmp_path / "gone"


def test_unreadable_subfolder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").touch()
    for name in (".hidden", "lost+found"):
        lock(tmp_path / name, monkeypatch)
    assert files_below(tmp_path) == [tmp_path / "a.json"]
    lock(tmp_path / "locked", monkeypatch)
    message = rf"^{tmp_path}/locked can't be read \(Permission denied\); check the path"
    with pytest.raises(UserError, match=message):
        files_below(tmp_path)


@pytest.mark.parametrize("name", ["", "*.json", "b.json"])
def test_link_to_data_that_are_missing_is_refused(tmp_path: Path, name: str) -> None:
    """As versioning tools leave them until their data are fetched; also in a folder or a glob."""
    (tmp_path / "a.json").touch()
    (tmp_path / "b.json").symlink_to("../.git/annex/b")
    message = r"/b\.json is a link to \.\./\.git/annex/b, which does not exist\. Fetch the data"
    with pytest.raises(InvalidPath, match=message):
        matches(tmp_path / name) if name else files_below(tmp_path)


CONTAINERS = {
    b"7z\xbc\xaf\x27\x1c\0": "a 7z archive. Unpack it",
    b"%PDF-1.7": "a PDF. Save its text as .txt, or its questions as JSON",
    b"BZh9": "compressed with bzip2. Decompress it",
    zipped(TEXT): "a zip archive. Rename it so that it ends in .zip.",
    zipped(TEXT, "word/document.xml"): "a Word document (docx). Save its text",
    zipped(TEXT, "xl/workbook.xml"): "an Excel workbook (xlsx). Save its sheet as CSV.",
    b"version https://git-lfs.github.com/spec/v1": "a Git LFS pointer, not the data. Run",
}


@pytest.mark.parametrize("content", CONTAINERS)
@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_container_is_named(
    tmp_path: Path, content: bytes, compress: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "a.json").write_bytes(compress(content))
    with pytest.raises(UserError) as caught:
        open_input(tmp_path / "a.json")
    assert str(caught.value).startswith(f"{tmp_path}/a.json: the file is {CONTAINERS[content]}")


def test_tar_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(TEXT)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.json", "a.json")
    with pytest.raises(UserError, match=r"a\.tar\.gz: the file is a tar archive\. Unpack it"):
        open_input(tmp_path / "a.tar.gz")


def test_linked_folders_are_read_once(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "data"
    for parent in (elsewhere, folder / "may"):
        parent.mkdir(parents=True)
        (parent / "a.json").touch()
    (folder / "june").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(folder)
    (folder / "same").symlink_to(elsewhere)
    assert files_below(folder) == [folder / "june" / "a.json", folder / "may" / "a.json"]


def test_hidden_and_macos_members_are_left_out(tmp_path: Path) -> None:
    archive = tmp_path / "__MACOSX" / "a.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as opened:
        for name in ("may.json", "__MACOSX/._may.json", ".DS_Store", ".saved/may.json"):
            opened.writestr(name, "{}")
    assert members(archive) == [archive / "may.json"]


def test_unusual_member_names_are_read(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the second b.json
        for name in (".", "./a.json", "b.json", "b.json", "at 10:30.json", "10:45//c.json"):
            opened.writestr(name, name)
    names = ["10:45/c.json", "a.json", "at 10:30.json", "b.json"]
    assert members(archive) == [archive / name for name in names]
    contents = [b"10:45//c.json", b"./a.json", b"at 10:30.json", b"b.json"]
    assert [read(path) for path in members(archive)] == contents


@compressors
@settings(max_examples=25)
@given(data=st.data())
def test_truncated_file_error_names_the_file(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    packed = PACKERS[name](TEXT)
    cut = data.draw(st.integers(1, len(packed) - 1))
    path = write(tmp_path_factory.mktemp("cut"), name, packed[:cut])
    with pytest.raises(UserError, match=rf"{name}.* can't be read"):
        read(path)


@compressors
def test_flipped_bit_is_detected(name: str, tmp_path: Path) -> None:
    packed = bytearray(PACKERS[name](TEXT))
    packed[len(packed) // 2] ^= 4
    if name == "a.json.zst":  # Arrow's frames have no checksum; also damage the magic number
        packed[0] ^= 4
    with pytest.raises(UserError, match=r"a\."):
        read(write(tmp_path, name, bytes(packed)))


@compressors
def test_rejects_decompression_bombs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "UNPACKED_FREE", 1 << 20)
    path = write(tmp_path, name, PACKERS[name](bytes(50 << 20)))
    read_bytes = 0
    with pytest.raises(UserError, match="zip bomb"), open_input(path) as stream:
        while block := stream.read(1 << 16):
            read_bytes += len(block)
    assert read_bytes <= 4 << 20


@pytest.mark.parametrize(
    ("name", "mode", "problem"),
    [
        *((name, 0, "points outside") for name in ("../../x.json", "/etc/x.json", "..\\x.json")),
        *((name, 0, "points outside") for name in ("C:\\x.json", "C:x.json")),
        ("a.json", 0o120777, "is a link"),
    ],
)
def test_rejects_links_and_members_outside(
    name: str, mode: int, problem: str, tmp_path: Path
) -> None:
    member = zipfile.ZipInfo(name)
    member.external_attr = mode << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, "/etc/passwd")
    for attempt in (members, lambda path: read(path / name)):
        with pytest.raises(UserError, match=rf"a\.zip: member '.*' {problem}|No such file: /etc"):
            attempt(tmp_path / "a.zip")


def test_rejects_password_protected_members(tmp_path: Path) -> None:
    packed = bytearray(zipped(TEXT))
    packed[6] |= 1  # the encryption flag, in the member's header and in the central directory
    packed[packed.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(UserError, match=r"a\.zip.*(password|encrypted)"):
        read(write(tmp_path, "a.zip", bytes(packed)))


def test_missing_files_and_members_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(TEXT))
    with pytest.raises(UserError, match=r"No such file: .*b\.json"):
        open_input(tmp_path / "b.json")
    with pytest.raises(
        UserError, match=r"a\.zip does not contain b\.json \(it contains: a\.json\)"
    ):
        open_input(tmp_path / "a.zip" / "b.json")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.JSONL", ".jsonl"), ("a.b.Parquet.ZST", ".parquet"), ("a.gz", ""), ("a.zip", ".zip")],
)
def test_inner_suffix_ignores_compression(name: str, suffix: str) -> None:
    assert inner_suffix(Path(name)) == suffix
