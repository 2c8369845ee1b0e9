"""The rule by which a token finds its word, with examples."""

import pytest

from tasks.text.build_vocabulary import coverage
from tasks.text.vocabulary import (
    UNKNOWN,
    Lexicon,
    indices,
    is_known,
    lookup_keys,
    query_word,
    word_of,
)

KNOWN = {
    word: row
    for row, word in enumerate(["owl", "Paris", "u.s.", "10,000", "'s", '"', "--", "’ll", "café"])
}


@pytest.mark.parametrize(
    ("form", "lower_case", "word", "known"),
    [
        ("owl", True, "owl", True),
        ("OWL", True, "owl", True),
        ("OWL", False, "OWL", False),
        ("Paris", True, "paris", False),  # never as written if the policy is lower case
        ("Paris", False, "Paris", True),
        ("U.S.", True, "u.s.", True),
        ("10,000", True, "10,000", True),
        ("10,001", True, "10,001", False),  # digits are not replaced
        ("’S", True, "'s", True),
        ("’ll", True, "’ll", True),  # as written first, then with plain quotes
        ("“", False, '"', True),
        ("—", True, "--", True),
        ("?", True, "?", False),
        ("Cafe\u0301", True, "café", True),  # decomposed letters, as in texts from PDF files
        ("O’Hara", True, "o'hara", False),  # the form from which an OOV word is composed
    ],
)
def test_a_token_finds_its_word(form: str, lower_case: bool, word: str, known: bool) -> None:
    assert word_of(form, KNOWN, lower_case) == word
    assert word in lookup_keys(form, lower_case)
    assert is_known(form, KNOWN, lower_case) == known
    lexicon = Lexicon(indices(KNOWN), {}, lower_case)
    assert (lexicon.word(form) != UNKNOWN) == known
    assert coverage({form: 1}, KNOWN, lower_case)["forms_looked_up"] == known


@pytest.mark.parametrize(
    ("word", "found"),
    [("Paris", "Paris"), ("PARIS", "paris"), ("Owl", "owl"), ("’s", "’s"), ("wolf", "wolf")],
)
def test_query_words_are_tried_as_written(word: str, found: str) -> None:
    assert query_word(word, KNOWN) == found
