"""Links by which paths with special characters have plain ones."""

from pathlib import Path

import pytest

from infra import plain_paths
from infra.errors import UserError
from infra.plain_paths import SPECIAL, plain


def test_plain_path_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert plain(tmp_path / "größe-1.0") == tmp_path / "größe-1.0"
    assert plain(Path("here")) == tmp_path / "here"


@pytest.mark.parametrize(
    "name", ["a b", "[c]", "d's", 'e"', "$f", "g;", "h&i", "j:k", "l\\", "(m)", "n%20o"]
)
def test_special_path_has_a_plain_link(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_paths, "LINKS", tmp_path / "links")
    folder = tmp_path / name
    folder.mkdir()
    link = plain(folder)
    assert link.samefile(folder) and not SPECIAL.search(str(link))
    assert plain(folder) == link, "the same each time"
    assert plain(tmp_path / f"{name}2") != link


def test_links_of_others_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    folder.chmod(0o770)
    monkeypatch.setattr(plain_paths, "LINKS", folder)
    with pytest.raises(UserError, match="not a private folder of yours"):
        plain(tmp_path / "a b")
    (tmp_path / "own").mkdir(mode=0o700)
    monkeypatch.setattr(plain_paths, "LINKS", tmp_path / "link")
    plain_paths.LINKS.symlink_to(tmp_path / "own")
    with pytest.raises(UserError, match="not a private folder of yours"):
        plain(tmp_path / "a b")
