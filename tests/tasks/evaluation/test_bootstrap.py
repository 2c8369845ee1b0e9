"""The paired bootstrap on planted differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.bootstrap import paired_gain


def test_equal_scores_have_no_gain() -> None:
    scores = np.random.default_rng(0).random(50)
    gain = paired_gain(scores, scores)
    assert (gain.mean, gain.low, gain.high, gain.is_certain) == (0, 0, 0, False)


@given(st.floats(0.01, 1), st.integers(1, 40))
def test_constant_difference_is_significant(difference: float, questions: int) -> None:
    before = np.zeros(questions)
    gain = paired_gain(before, before + difference)
    assert gain.mean == pytest.approx(difference)
    assert gain.low == pytest.approx(difference) and gain.is_certain


def test_interval_matches_theory() -> None:
    """A mean of n differences of variance v has a standard error of sqrt(v / n)."""
    random = np.random.default_rng(1)
    before, after = random.random(2_000), random.random(2_000)
    gain = paired_gain(before, after)
    width = 2 * 1.96 * (after - before).std() / np.sqrt(2_000)
    assert gain.high - gain.low == pytest.approx(width, rel=0.1)


def test_bootstrap_keeps_pairs_together() -> None:
    """What the two scores of a question have in common does not widen the interval."""
    before = np.random.default_rng(2).random(200)
    gain = paired_gain(before, before + 0.001)
    assert gain.high - gain.low < 1e-9


def test_false_positive_rate_is_about_5_percent() -> None:
    random = np.random.default_rng(3)
    certain = [
        paired_gain(random.integers(2, size=100), random.integers(2, size=100)).is_certain
        for _ in range(100)
    ]
    assert sum(certain) <= 14
