"""Alignment of answers with tokens: every outcome of the ledger, with its reason."""

import pytest

from tasks.data.alignment import Alignment, AlignmentStatus, align, training_answer
from tasks.data.schema import Answer, Question
from tasks.text.tokenizer import tokenize

CONTEXT = "The gold-themed game was won 24–10 by the 42nd team."


def answers(*spans: tuple[str, int]) -> list[Answer]:
    return [Answer(text=text, answer_start=start) for text, start in spans]


def aligned(
    *spans: tuple[str, int],
    context: str = CONTEXT,
    text: str = "?",
    impossible: bool = False,
    repair: bool = False,
) -> Alignment:
    question = Question(id="q", question=text, answers=answers(*spans), is_impossible=impossible)
    tokens = tokenize(context)
    starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
    return align(question, context, starts, ends, repair)


def expected(
    outcome: AlignmentStatus, span: tuple[str, int], start: int, end: int, reason: str = ""
) -> Alignment:
    return Alignment(outcome, reason, *answers(span), start, end)


def test_most_frequent_answer_is_the_target() -> None:
    chosen = training_answer(answers(("a", 0), ("b", 5), ("b", 9), ("b", 9), ("a", 0)))
    assert (chosen.text, chosen.answer_start) == ("a", 0)  # a tie with ("b", 9); the first one wins
    assert training_answer(answers(("a", 0), ("a", 7), ("a", 7))).answer_start == 7


@pytest.mark.parametrize(
    ("spans", "context", "first", "last"),
    [
        ([("gold-themed", 4)], CONTEXT, 1, 3),
        ([("24–10", 29)], CONTEXT, 7, 9),
        ([(" gold ", 3)], "The gold  bar", 1, 1),
        ([(CONTEXT, 0)], CONTEXT, 0, 14),
        # Of several, the one that matches the context.
        ([("game", 16), ("lost", 4), ("lost", 4)], CONTEXT, 4, 4),
    ],
)
def test_answers_on_token_borders_are_exact(
    spans: list[tuple[str, int]], context: str, first: int, last: int
) -> None:
    assert aligned(*spans, context=context) == expected("exact", spans[0], first, last)


def test_widened_names_the_border_and_its_token() -> None:
    span = ("42", 42)
    assert aligned(span) == expected("widened", span, 12, 12, "ends inside the token '42nd'")
    span = ("nd team", 44)
    assert aligned(span) == expected("widened", span, 12, 13, "starts inside the token '42nd'")
    assert aligned(("am", 17)).reason == (
        "starts inside the token 'game', ends inside the token 'game'"
    )


@pytest.mark.parametrize(
    ("spans", "fault", "reason"),
    [
        ([], "no-answer", "the question has no answer and is not marked is_impossible"),
        ([("", 3)], "empty-answer", "the answer is empty"),
        ([(" ", 3)], "empty-answer", "the answer is empty"),
        (
            [("lost", 4)],
            "absent",
            "the context has 'gold' at answer_start=4, not 'lost'; no match elsewhere",
        ),
        (
            [("gold", 5)],
            "wrong-offset",
            "the context has 'old-' at answer_start=5, not 'gold'; nearest match at 4",
        ),
    ],
)
def test_dropped_answers_give_the_reason(
    spans: list[tuple[str, int]], fault: str, reason: str
) -> None:
    alignment = aligned(*spans)
    assert (alignment.outcome, alignment.fault, alignment.reason) == ("dropped", fault, reason)
    assert (alignment.start, alignment.end, alignment.repaired) == (-1, -1, None)
    assert alignment.gold == (answers(*spans)[0] if spans else None)


def test_empty_or_impossible_questions_keep_no_answer() -> None:
    for text in ("", " \n"):
        empty = aligned(("gold", 4), text=text)
        assert (empty.outcome, empty.fault, empty.start) == ("dropped", "empty-question", -1)
    assert aligned(impossible=True) == Alignment("impossible", "marked is_impossible")
    assert aligned(("gold", 4), impossible=True) == Alignment(
        "impossible", "marked is_impossible; its answers (1) are ignored"
    )


def test_repairs_are_opt_in_and_recorded() -> None:
    wrong, correction = answers(("42", 40), ("42", 42))
    assert aligned(("42", 40)).outcome == "dropped"
    assert aligned(("42", 40), repair=True) == Alignment(
        "repaired",
        "repaired (the context has 'e ' at answer_start=40, not '42'; nearest match at 42), "
        "ends inside the token '42nd'",
        wrong,
        12,
        12,
        "wrong-offset",
        correction,
    )
    assert aligned(("lost", 4), repair=True) == aligned(("lost", 4))
