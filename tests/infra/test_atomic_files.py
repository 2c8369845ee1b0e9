"""Atomic writes: what a file and its folder hold before, during and after them; links to equal
files."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.atomic_files import atomic_file, link_to_equal, new_folder, write_atomically
from infra.settings import CHECKOUT


def test_new_file_has_its_folder_and_the_usual_mode(tmp_path: Path) -> None:
    path, plain = tmp_path / "a" / "b" / "note.json", tmp_path / "plain"
    write_atomically(path, "Übung")
    plain.touch()
    assert path.read_bytes() == "Übung".encode()
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode == plain.stat().st_mode


def test_file_changes_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_atomically(path, b"old")
    with pytest.raises(RuntimeError, match="no more"), atomic_file(path) as file:
        file.write(b"ne")
        raise RuntimeError("no more")
    with atomic_file(path) as file:
        file.write(b"new")
        file.flush()
        (hidden,) = set(tmp_path.iterdir()) - {path}
        assert hidden.name.startswith(".page.html.")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_simultaneous_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    contents = [bytes([letter]) * 100_000 for letter in b"abcd"]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda content: write_atomically(path, content), contents * 5))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
from infra.atomic_files import atomic_file

with atomic_file(Path(sys.argv[1])) as file:
    file.write(b"ne")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_writer_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    write_atomically(path, b"old")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=CHECKOUT, env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert list(tmp_path.glob("*.json")) == [path]  # readers of notes and records list these


def test_folder_is_on_disk_before_it_looks_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final, flushed, fsync = tmp_path / "stage", list[tuple[str, bool]](), os.fsync

    def recorded(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        flushed.append((path.name, final.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    with new_folder(final) as folder:
        (folder / "model").mkdir()
        (folder / "model" / "weights").write_bytes(b"weights")
    assert sorted(flushed[:-1]) == [("model", False), ("stage", False), ("weights", False)]
    assert flushed[-1] == (tmp_path.name, True)


def test_equal_file_becomes_a_link(tmp_path: Path) -> None:
    file, other, equal = (tmp_path / name for name in ("file", "other", "equal"))
    for path, content in ((file, "same"), (other, "else"), (equal, "same")):
        path.write_text(content)
    link_to_equal(file, [tmp_path / "missing", other, equal])
    assert file.samefile(equal) and not file.samefile(other)
    equal.unlink()
    assert file.read_text() == "same"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other"]


def test_file_stays_if_it_can_not_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise OSError("Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    file, equal = tmp_path / "file", tmp_path / "equal"
    for path in (file, equal):
        path.write_text("same")
    link_to_equal(file, [equal])
    assert file.read_text() == "same" and not file.samefile(equal)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["equal", "file"]
