"""Answers meet tokens: every outcome of the ledger, with its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.alignment import Alignment, align, training_answer
from tasks.squad import Answer, Question
from tasks.tokenizer import tokenize

CONTEXT = "The gold-themed game was won 24–10 by the 42nd team."


def answers(*given: tuple[str, int]) -> list[Answer]:
    return [Answer(text=text, answer_start=start) for text, start in given]


def aligned(*given: tuple[str, int], context: str = CONTEXT, impossible: bool = False) -> Alignment:
    question = Question(id="q", question="?", answers=answers(*given), is_impossible=impossible)
    tokens = tokenize(context)
    return align(question, context, [start for start, _ in tokens], [end for _, end in tokens])


def test_most_frequent_answer_is_trained_on() -> None:
    chosen = training_answer(answers(("a", 0), ("b", 5), ("b", 9), ("b", 9), ("a", 0)))
    assert (chosen.text, chosen.answer_start) == ("a", 0)  # twice, as ("b", 9) is, but first


def test_same_text_elsewhere_is_another_answer() -> None:
    chosen = training_answer(answers(("a", 0), ("a", 7), ("a", 7)))
    assert chosen.answer_start == 7


def test_exact() -> None:
    assert aligned(("gold-themed", 4)) == Alignment("exact", "", "gold-themed", 1, 3)
    assert aligned(("24–10", 29)) == Alignment("exact", "", "24–10", 7, 9)


def test_white_space_around_an_answer_is_ignored() -> None:
    assert aligned((" gold ", 3), context="The gold  bar") == Alignment("exact", "", " gold ", 1, 1)


def test_widened_tells_which_border_lies_inside_which_token() -> None:
    assert aligned(("42", 42)) == Alignment("widened", "ends inside the token '42nd'", "42", 12, 12)
    assert aligned(("nd team", 44)) == Alignment(
        "widened", "starts inside the token '42nd'", "nd team", 12, 13
    )
    assert aligned(("am", 17)).reason == (
        "starts inside the token 'game', ends inside the token 'game'"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (("gold", 5), "'old-' stands at 5, not 'gold'; it stands at 4"),
        (("the", 30), "'4–1' stands at 30, not 'the'; it stands at 38"),
        (("lost", 4), "'gold' stands at 4, not 'lost'; it stands nowhere"),
        (("gold", -1), "answer_start -1 lies outside the context of 52 characters; it stands at 4"),
        (("gold", 99), "answer_start 99 lies outside the context of 52 characters; it stands at 4"),
        (("team. Then", 47), "'team.' stands at 47, not 'team. Then'; it stands nowhere"),
        (("", 3), "the answer is empty"),
        ((" ", 3), "the answer is empty"),
    ],
)
def test_dropped_tells_what_stands_there_instead(answer: tuple[str, int], reason: str) -> None:
    assert aligned(answer) == Alignment("dropped", reason, answer[0])


def test_of_several_places_the_nearest_is_told() -> None:
    assert aligned(("a", 4), context="a b a b b a").reason == ""
    assert aligned(("a", 3), context="a b a b b a").reason.endswith("it stands at 4")
    assert aligned(("a", 8), context="a b a b b a").reason.endswith("it stands at 10")


def test_no_token_overlaps() -> None:
    question = Question(id="q", question="?", answers=answers(("b", 2)))
    assert align(question, "a b", [0], [1]).reason == "no token overlaps the answer"


def test_impossible_questions_keep_no_answer() -> None:
    assert aligned(impossible=True) == Alignment("impossible", "marked is_impossible", "")
    assert aligned(("gold", 4), impossible=True) == Alignment(
        "impossible", "marked is_impossible, so its 1 answers are not used", ""
    )


def test_question_without_answers_is_dropped_unless_marked() -> None:
    found = aligned()
    assert (found.outcome, found.start, found.end) == ("dropped", -1, -1)
    assert found.reason == "no answer is given, and it is not marked is_impossible"


@given(st.text("ab '.\u0301東", min_size=1, max_size=30), st.data())
def test_every_answer_that_stands_in_the_context_lies_in_its_span(
    context: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    text = context[start:end]
    found = aligned((text, start), context=context)
    if not text.strip():
        assert found.outcome == "dropped"
        return
    tokens = tokenize(context)
    span = context[tokens[found.start][0] : tokens[found.end][1]]
    assert text.strip() in span
    assert (found.outcome == "exact") == (span == text.strip())
    assert (found.outcome == "exact") == (found.reason == "")
