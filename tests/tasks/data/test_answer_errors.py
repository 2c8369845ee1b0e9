"""Answers that do not match their answer_start: their errors, and where they occur instead."""

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tasks.data.answer_errors import diagnose, matches_context
from tasks.data.schema import Answer

DECOMPOSED = unicodedata.normalize("NFD", "Beyoncé sang in Zürich, 한국 and Málaga")
WIDE = "The price: ５０\u00a0€ per ﬁsh"
SPACED = "one  two\n\tthree\u2003four"


def answer(text: str, start: int) -> Answer:
    return Answer(text=text, answer_start=start)


@pytest.mark.parametrize(
    ("text", "start", "context", "kind", "correction"),
    [
        ("a", 3, "a b a b b a", "wrong-offset", ("a", 4)),
        ("a", 8, "a b a b b a", "wrong-offset", ("a", 10)),
        ("b", -1, "a b a b b a", "wrong-offset", ("b", 2)),
        ("b", 2**31 - 1, "a b a b b a", "wrong-offset", ("b", 8)),
        ("two three", 5, SPACED, "other-white-space", ("two\n\tthree", 5)),
        (" three four\n", 10, SPACED, "other-white-space", ("three\u2003four", 10)),
        ("Beyoncé", 0, DECOMPOSED, "other-unicode-form", ("Beyonce\u0301", 0)),
        ("Zürich", 16, DECOMPOSED, "other-unicode-form", ("Zu\u0308rich", 17)),
        ("한국", 24, DECOMPOSED, "other-unicode-form", (unicodedata.normalize("NFD", "한국"), 26)),
        ("50 €", 11, WIDE, "other-unicode-form", ("５０\u00a0€", 11)),
        ("fish", 20, WIDE, "other-unicode-form", ("ﬁsh", 20)),
        ("Cafe\u0301", 0, "Café", "other-unicode-form", ("Café", 0)),
        ("1", 0, "½ of 1½", "wrong-offset", ("1", 5)),
        ("1", 0, "½ of it", "absent", None),
        ("M", 5, "Ace™", "absent", None),
        ("fi", 0, "ﬁ", "other-unicode-form", ("ﬁ", 0)),
        ("i", 0, "ﬁ", "absent", None),
        ("V 1", 0, "Ⅷ 1, Ｖ 1", "other-unicode-form", ("Ｖ 1", 5)),
        ("V 1", 9, "Ｖ 1, Ⅴ ½", "other-unicode-form", ("Ｖ 1", 0)),
        ("beyonce", 0, DECOMPOSED, "absent", None),
        ("a", 0, "", "absent", None),
        ("the “Gold” bar", 0, 'See the "gold" bar', "other-characters", ('the "gold" bar', 4)),
        ("Tom &amp; Ann", 0, "by Tom & Ann", "other-characters", ("Tom & Ann", 3)),
        ("Tom & Ann", 0, "by Tom &amp; Ann", "other-characters", ("Tom &amp; Ann", 3)),
        ("gold\u200b bar", 0, "the gold bar", "other-characters", ("gold bar", 4)),
        ("gold bar", 0, "the go\u200bld bar", "other-characters", ("go\u200bld bar", 4)),
        ("1990-1995", 0, "in 1990–1995", "other-characters", ("1990–1995", 3)),
        ("\u200b", 0, "abc", "absent", None),
        (" \n", 0, SPACED, "empty-answer", None),
    ],
)
def test_diagnoses_each_kind_of_answer_error(
    text: str, start: int, context: str, kind: str, correction: tuple[str, int] | None
) -> None:
    error = diagnose(answer(text, start), context)
    assert (error.kind, error.correction) == (kind, correction and answer(*correction))


@pytest.mark.parametrize(
    ("text", "start", "reason"),
    [
        ("two", 0, "the context has 'one' at answer_start=0, not 'two'; nearest match at 5"),
        ("two", -1, "the answer has no answer_start; nearest match at 5"),
        ("two", 99, "answer_start=99 is outside the context (20 characters); nearest match at 5"),
        (
            "one two",
            0,
            "the context has 'one  tw' at answer_start=0, not 'one two'; "
            "similar text 'one  two' at 0",
        ),
        (
            "five",
            5,
            "the context has 'two\\n' at answer_start=5, not 'five'; no match elsewhere",
        ),
    ],
)
def test_reason_names_the_offset_and_actual_text(text: str, start: int, reason: str) -> None:
    assert diagnose(answer(text, start), SPACED).reason == reason


def test_long_answers_are_shortened_in_the_reason() -> None:
    assert len(diagnose(answer("x" * 5000, 0), "y" * 5000).reason) < 300


TEXT = st.text("ab ２é\u0301\u00a0\nﬁf한\u1112\u1161\u11ab", min_size=1, max_size=30)


@given(TEXT, TEXT, st.integers(-1, 40))
def test_repaired_answers_match_the_context(text: str, context: str, start: int) -> None:
    wrong = answer(text, start)
    assume(not matches_context(wrong, context))
    correction = diagnose(wrong, context).correction
    if correction is not None:
        assert matches_context(correction, context)
        folded = [
            " ".join(unicodedata.normalize("NFKC", t).split()) for t in (text, correction.text)
        ]
        assert folded[0] == folded[1]


@given(TEXT, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]), st.data())
def test_answers_in_other_unicode_forms_are_found(
    context: str, form: str, data: st.DataObject
) -> None:
    """Words that begin with a combining mark or a non-initial Hangul letter are excluded:
    normalisation would join them to the character before.
    """
    words = context.split()
    assume(words)
    word = data.draw(st.sampled_from(words))
    assume(
        not unicodedata.category(word[0]).startswith("M") and not "\u1160" <= word[0] <= "\u11ff"
    )
    normalized = answer(unicodedata.normalize(form, word), data.draw(st.integers(0, 40)))
    if not matches_context(normalized, context):
        assert diagnose(normalized, context).correction is not None
