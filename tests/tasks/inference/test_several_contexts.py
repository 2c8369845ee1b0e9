"""The answers to a question from several contexts: one distribution, in the right order."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.inference.predictor import AnswerRow
from tasks.inference.several_contexts import best_over_contexts


def row(answer: str, probability: float, none: float, error: str = "") -> AnswerRow:
    start = 0 if answer else -1
    return AnswerRow(
        answer=answer,
        start=start,
        end=start + len(answer) if answer else -1,
        probability=probability,
        no_answer_probability=none,
        error=error,
    )


@st.composite
def contexts(draw: st.DrawFn) -> dict[str, list[AnswerRow]]:
    """All answers from some contexts: their probabilities and that of no answer are 1 together."""
    found = {}
    for context in "abc"[: draw(st.integers(1, 3))]:
        weights = draw(st.lists(st.floats(0.01, 1), min_size=2, max_size=5))
        none, *spans = (weight / sum(weights) for weight in weights)
        rows = [row(f"{context}{i}", p, none) for i, p in enumerate(spans)]
        rows.append(row("", none, none))
        found[context] = sorted(rows, key=lambda own: (-own["probability"], own["start"]))
    return found


@given(contexts())
def test_probabilities_are_one_distribution(answers: dict[str, list[AnswerRow]]) -> None:
    merged = best_over_contexts(answers, 0.0)
    assert sum(own["probability"] for own in merged) == pytest.approx(1)
    assert len({own["answer"] for own in merged}) == len(merged), "no answer is there once"
    ranked = [own["probability"] for own in merged]
    assert ranked == sorted(ranked, reverse=True)
    for own in merged:
        if own["answer"]:
            (single,) = [r for r in answers[own["context"]] if r["answer"] == own["answer"]]
            odds = single["probability"] / single["no_answer_probability"]
            assert own["probability"] / own["no_answer_probability"] == pytest.approx(odds)


@given(contexts(), st.sampled_from([-1.3, -0.4, 0.0, 0.7]))
def test_one_context_keeps_its_answers(
    answers: dict[str, list[AnswerRow]], threshold: float
) -> None:
    rows = answers["a"]
    none = rows[0]["no_answer_probability"]
    merged = best_over_contexts({"a": rows}, threshold)
    for own in merged:
        (single,) = [r for r in rows if r["answer"] == own["answer"]]
        assert own["probability"] == pytest.approx(single["probability"])
    place = [own["answer"] for own in merged].index("")
    margins = [math.log(none / own["probability"]) for own in merged if own["answer"]]
    assert place == sum(margin < threshold for margin in margins)


def test_one_context_with_an_answer_is_enough() -> None:
    answers = {"poor": [row("", 0.9, 0.9), row("x", 0.1, 0.9)], "good": [row("hill", 0.8, 0.1)]}
    best, *_ = best_over_contexts(answers, 0.0)
    # The odds are 8 of this span, 9 of all spans of its context, and 1/9 of those of the other.
    assert (best["answer"], best["context"]) == ("hill", "good")
    assert best["probability"] == pytest.approx(8 / (1 + 9 + 1 / 9))
    assert best["no_answer_probability"] == pytest.approx(1 / (1 + 9 + 1 / 9))


def test_no_answer_has_the_context_that_comes_closest() -> None:
    answers = {"a": [row("", 0.9, 0.9)], "b": [row("", 0.6, 0.6)], "c": [row("", 0.8, 0.8)]}
    (null,) = best_over_contexts(answers, 0.0)
    assert (null["answer"], null["start"], null["context"]) == ("", -1, "b")


def test_without_no_answer_contexts_are_equally_likely() -> None:
    answers = {"a": [row("x", 0.5, 1e-9)], "b": [row("y", 0.75, 0.001)]}
    first, second = best_over_contexts(answers, math.inf)
    assert (first["answer"], first["probability"]) == ("y", 0.375)
    assert (second["answer"], second["probability"]) == ("x", 0.25)


def test_unreadable_contexts_are_left_out() -> None:
    bad, good = row("", 0.0, 0.0, "The context is empty."), row("x", 0.5, 0.25)
    (best,) = best_over_contexts({"": [bad], "a": [good]}, math.inf)
    assert (best["answer"], best["probability"], best["error"]) == ("x", 0.5, "")
    (failed,) = best_over_contexts({"": [bad]}, 0.0)
    assert failed["error"] == "The context is empty."


def test_extreme_probabilities_stay_finite() -> None:
    answers = {"a": [row("x", 1.0, 0.0)], "b": [row("y", 1.0, 0.0)], "c": [row("", 1.0, 1.0)]}
    merged = best_over_contexts(answers, 900.0)
    assert [own["answer"] for own in merged[:2]] == ["x", "y"]
    assert merged[0]["probability"] == pytest.approx(0.5)
