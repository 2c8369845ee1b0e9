"""Equal files that share their content on disk."""

import os
from pathlib import Path

import pytest

from infra.artifacts.hard_links import link_to_equal


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
