"""Names from elsewhere that become paths here."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from infra.storage.safe_names import is_safe_name, safe_name

UNSAFE = [
    *("", ".", "..", "../x", "../../x", "a/../x", "a/..", "a/./x", "./x"),
    *("/x", "//x", "a//x", "a/", "..\\x", "a\\x", "C:x", "c:/x", "\\\\server\\share", "a\0b"),
]


@pytest.mark.parametrize("name", UNSAFE)
def test_name_that_leads_out_of_a_folder_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"s3://b/f has a file or folder named .* nothing was wr"):
        safe_name(name, "s3://b/f")


@pytest.mark.parametrize("name", ["x", "a/b.json", "...", "a..b", "..a/b", ".hidden", "12:30.json"])
def test_other_names_are_kept(name: str) -> None:
    assert safe_name(name, "s3://b/f") == name


@given(st.text("ab./\\:C", max_size=12))
def test_safe_names_stay_in_the_folder(name: str) -> None:
    folder = Path("/data/folder")
    if is_safe_name(name):
        path = Path(f"{folder}/{name}")
        assert folder in path.parents and path == (folder / name).resolve()
