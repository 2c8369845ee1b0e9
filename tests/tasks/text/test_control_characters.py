"""Control characters do not reach a page or the terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tasks.text.control_characters import without_control_characters


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_only_tabs_and_line_ends_remain(text: str) -> None:
    shown = without_control_characters(text)
    assert len(shown) == len(text)
    for before, after in zip(text, shown, strict=True):
        control = unicodedata.category(before) == "Cc" and before not in "\t\n\r"
        assert after == ("\ufffd" if control else before)
