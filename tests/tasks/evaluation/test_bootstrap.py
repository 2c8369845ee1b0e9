"""The paired bootstrap on planted differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.bootstrap import paired_gain


def test_equal_scores_have_no_gain() -> None:
    scores = np.random.default_rng(0).random(50)
    gain = paired_gain(scores, scores, np.arange(50))
    assert (gain.mean, gain.low, gain.high, gain.is_certain) == (0, 0, 0, False)


@given(st.floats(0.01, 1), st.integers(2, 40))
def test_constant_difference_is_significant(difference: float, questions: int) -> None:
    before = np.zeros(questions)
    gain = paired_gain(before, before + difference, np.arange(questions))
    assert gain.mean == pytest.approx(difference)
    assert gain.low == pytest.approx(difference) and gain.is_certain


def test_interval_matches_theory() -> None:
    """A mean of n differences of variance v has a standard error of sqrt(v / n)."""
    random = np.random.default_rng(1)
    before, after = random.random(2_000), random.random(2_000)
    gain = paired_gain(before, after, np.arange(2_000))
    width = 2 * 1.96 * (after - before).std() / np.sqrt(2_000)
    assert gain.high - gain.low == pytest.approx(width, rel=0.1)


def test_questions_about_a_context_stay_together() -> None:
    """If the ten questions about a context have one score, they say no more than one question.
    Contexts do not have to be in order."""
    random = np.random.default_rng(4)
    after, context_of = np.repeat(random.random(200), 10), np.repeat(np.arange(200), 10)
    order = random.permutation(2_000)
    gain = paired_gain(np.zeros(2_000), after[order], context_of[order])
    assert gain.high - gain.low == pytest.approx(2 * 1.96 * after.std() / np.sqrt(200), rel=0.1)


def test_larger_contexts_count_more() -> None:
    """The mean is over the questions, not over the contexts."""
    after, context_of = np.array([1.0, 1.0, 1.0, 0.0]), np.array([7, 7, 7, 9])
    gain = paired_gain(np.zeros(4), after, context_of)
    assert gain.mean == 0.75 and gain.low < 0 and gain.high > 1


def test_questions_about_one_context_are_drawn_singly() -> None:
    random = np.random.default_rng(5)
    before, after = random.random(100), random.random(100)
    one = paired_gain(before, after, np.full(100, 3))
    assert one == paired_gain(before, after, np.arange(100)) and one.high > one.low


def test_bootstrap_keeps_pairs_together() -> None:
    """What the two scores of a question have in common does not widen the interval."""
    before = np.random.default_rng(2).random(200)
    gain = paired_gain(before, before + 0.001, np.arange(200))
    assert gain.high - gain.low < 1e-9


def test_one_question_says_nothing_about_others() -> None:
    gain = paired_gain(np.array([50.0]), np.array([90.0]), np.array([3]))
    assert (gain.mean, gain.low, gain.high) == (40, -100, 100)


def test_higher_confidence_widens_the_interval() -> None:
    before, after = 100 * np.random.default_rng(6).random((2, 500))
    narrow, wide = (
        paired_gain(before, after, np.arange(500), confidence=confidence)
        for confidence in (0.95, 0.99)
    )
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(
        2.576 / 1.960, rel=0.1
    )


@pytest.mark.parametrize("contexts", [2, 3, 6])
def test_false_positives_are_few_with_few_contexts(contexts: int) -> None:
    """Without the enlargement, a quarter to a half would be."""
    random = np.random.default_rng(7)
    context_of = np.repeat(np.arange(contexts), 12)
    certain = []
    for _ in range(100):
        effect = random.normal(0, 10, contexts)[context_of]
        before = random.uniform(0, 50, len(context_of))
        certain.append(paired_gain(before, before + effect, context_of).is_certain)
    assert sum(certain) <= 14


def test_false_positive_rate_is_about_5_percent() -> None:
    """Also if the questions about a context are alike; drawn singly, they would give 40 %."""
    random = np.random.default_rng(3)
    context_of = np.repeat(np.arange(50), 6)
    certain = [
        paired_gain(*random.integers(2, size=(2, 50))[:, context_of], context_of).is_certain
        for _ in range(100)
    ]
    assert sum(certain) <= 14
