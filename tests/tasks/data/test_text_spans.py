"""Names, numbers, years and months in a text, and its sentences."""

import pytest

from tasks.data.text_spans import Text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("When did Ada Lovelace meet Charles de Gaulle?", ["Ada Lovelace", "Charles de Gaulle"]),
        ("Who runs the Bank of England in J. R. Moss's time?", ["Bank of England", "J. R. Moss"]),
        ("Why did the Knowles-Carter duo leave?", ["Knowles-Carter"]),
        ("Ships came. Many went to Lima and Quito.", ["Lima", "Quito"]),
        ("Lima is old. He went to Lima.", ["Lima", "Lima"]),
        ("Who flew on Flight 103 in May?", []),
        ("Did I see it on Monday?", []),
    ],
)
def test_finds_names(text: str, names: list[str]) -> None:
    parsed = Text(text)
    assert [parsed.text_of(span) for span in parsed.spans if span.kind == "name"] == names


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("in May 1990 and 12 of 1,500", ["month", "year", "number", "number"]),
        ("may they march in 2007-08?", []),
        ("the 1990s, the 3rd and Windows 2000", ["number", "number"]),
        ("people in March or on May 5", ["month", "month", "number"]),
    ],
)
def test_finds_dates_and_numbers(text: str, spans: list[str]) -> None:
    assert [span.kind for span in Text(text).spans if span.kind != "name"] == spans


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("in 1990", "of 2001", True),
        ("with 12", "with 34", True),
        ("with 12", "with 340", False),
        ("the 1st", "the 2nd", True),
        ("on May 12", "with 12", False),
        ("of Ada Moss", "of Eve Hill", True),
        ("of Ada Moss", "of Lima", False),
        ("of NASA", "of Lima", False),
        ("the French", "the Swedish", True),
        ("the French", "the Romans", False),
        ("to the Romans", "to Romans", False),
    ],
)
def test_only_like_spans_have_the_same_shape(one: str, other: str, equal: bool) -> None:
    first, second = Text(one).spans[-1], Text(other).spans[-1]
    assert (first.shape == second.shape) == equal


def test_sentences_do_not_end_at_abbreviations() -> None:
    text = Text('Dr. Moss met J. Hill. "Why?" 12 left! It is no. 7 of them.')
    ends = [i for i in range(1, len(text.words)) if text.sentence_of[i] != text.sentence_of[i - 1]]
    assert [text.words[i] for i in ends] == ['"', "12", "it"]
    assert Text("").spans == Text("").sentence_of == []
