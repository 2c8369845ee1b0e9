"""New stage folders."""

import os
from pathlib import Path

import pytest

from infra.artifacts.staging import new_folder


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
