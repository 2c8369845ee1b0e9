"""The code version is the Git commit of the checkout."""

import subprocess
from pathlib import Path

import pytest

from infra.artifacts import manifest
from infra.errors import UserError


def test_git_commit_matches_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert manifest.git_commit() is None
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "a"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    clean = manifest.git_commit()
    assert clean is not None
    assert len(clean) == 40
    (tmp_path / "new.txt").write_text("new")
    subprocess.run(["git", "add", "new.txt"], cwd=tmp_path, check=True)
    assert manifest.git_commit() == f"{clean}-dirty"


def test_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    unreadable = Path("/proc/self/mem")  # also to root
    with pytest.raises(UserError, match=f"{unreadable} can't be read .* Check the path and"):
        manifest.content_digest(unreadable)
    with pytest.raises(UserError, match="No such file"):
        manifest.content_digest(tmp_path / "missing")
