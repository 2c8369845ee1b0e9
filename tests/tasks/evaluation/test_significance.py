"""Intervals over contexts and seeds, p-values, and Holm's correction."""

import numpy as np
import pytest

from tasks.evaluation.significance import (
    CorrectedGain,
    bootstrap,
    corrected_gains,
    holm,
    p_value,
    resampled_means,
)


def test_interval_covers_questions_and_seeds() -> None:
    random = np.random.default_rng(0)
    before = 100.0 * random.integers(0, 2, (2, 400))
    same = bootstrap(before, before, samples=200)
    assert same.mean == 0 and same.low <= 0 <= same.high
    alone = bootstrap(before[:1] + 3, before[:1], samples=200)
    assert (alone.mean, alone.low, alone.high) == pytest.approx((3, 3, 3))
    apart = np.stack([before[0], before[0] + 20])
    high = bootstrap(apart, before[:1], samples=200).high
    assert high == pytest.approx(10 + 10 * np.sqrt(2)), "two seeds underestimate their deviation"


def test_interval_covers_contexts() -> None:
    """If the ten questions about a context have one score, they say no more than one question."""
    random = np.random.default_rng(1)
    scores = np.repeat(100.0 * random.random((1, 200)), 10, axis=1)
    context_of = np.repeat(np.arange(200), 10)
    deviation = scores.std() / np.sqrt(200)
    together = resampled_means(scores, group_of=context_of)
    assert together.mean() == pytest.approx(scores.mean(), abs=deviation / 5)
    assert together.std() == pytest.approx(deviation, rel=0.1)
    assert resampled_means(scores).std() == pytest.approx(deviation / np.sqrt(10), rel=0.1)


def test_holm_multiplies_by_the_remaining_arms() -> None:
    corrected = holm({"a": 0.01, "b": 0.04, "c": 0.03})
    assert corrected == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("gains", [1, 51])
def test_large_gain_is_starred_among_many(gains: int) -> None:
    random = np.random.default_rng(2)
    before = 100.0 * random.random((1, 50))
    pairs = dict.fromkeys(range(gains), (before + 20, before))
    corrected = corrected_gains(pairs).values()
    assert all(gain.is_significant for gain in corrected)
    assert not corrected_gains({0: (before, before)})[0].is_significant


def test_p_value_counts_the_smaller_tail() -> None:
    assert p_value(np.array([1.0, 2, 3, -1])) == pytest.approx(4 / 5)
    assert p_value(np.ones(1999)) == pytest.approx(0.001)
    assert p_value(np.zeros(9)) == 1


def test_star_follows_the_corrected_p_value() -> None:
    """The interval excludes zero in both cases."""
    assert CorrectedGain(2.0, 0.5, 3.5, p=0.09).text == "+2.00 (+0.50 to +3.50)"
    assert CorrectedGain(2.0, 0.5, 3.5, p=0.04).text == "+2.00 (+0.50 to +3.50) *"
