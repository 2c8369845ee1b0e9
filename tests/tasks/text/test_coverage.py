"""Sentences on what a set of vectors covers of a text."""

import re

import pytest

from tasks.text.build_vocabulary import coverage
from tasks.text.coverage import covered, misfit, no_word_known

TEXT = {"Owls": 2, "hunt": 3, "mice": 3, ".": 1}


def shares(*words: str, lower_case: bool = True) -> dict[str, float]:
    """What a set of these words covers."""
    return coverage(TEXT, {word: row for row, word in enumerate(words)}, lower_case)


def test_states_the_shares_of_text_and_distinct_words() -> None:
    expected = "a.vec has vectors for 88.9 % of the text and 75 % of its distinct words."
    assert covered("a.vec", shares("owls", "hunt", "mice")) == expected


@pytest.mark.parametrize(
    ("words", "lower_case", "reason"),
    [
        ((".", "hibou"), True, "another language"),
        ((".", "hibou"), False, "another language"),
        ((".", "Owls", "HUNT"), True, r"up in lower case\. Set vocabulary\.lower_case to False\.$"),
        ((".", "owls"), False, r"up as written\. Set vocabulary\.lower_case to True\.$"),
        ((".", "OWLS", "MICE"), True, r"in lower case\. Choose vectors of words in lower case\.$"),
        (("MICE",), True, "in another case"),
    ],
)
def test_names_the_likely_cause(words: tuple[str, ...], lower_case: bool, reason: str) -> None:
    found = shares(*words, lower_case=lower_case)
    assert re.search(reason, misfit(found, lower_case) or "")
    assert no_word_known("a.vec", found) is None


def test_enough_words_have_no_misfit() -> None:
    found = shares("hunt", "mice")
    assert found["tokens_looked_up"] == pytest.approx(6 / 9)
    assert misfit(found, lower_case=True) is None


def test_set_without_any_word_is_named() -> None:
    problem = no_word_known("a.vec", shares("hibou"))
    assert problem is not None and problem.startswith("a.vec has no vector for any word of the")
