"""Intervals over contexts and seeds, p-values, and Holm's correction."""

import numpy as np
import pytest

from models.arrays import FloatArray
from tasks.evaluation.significance import CorrectedGain, corrected_gains, holm, t_test

SPREAD = 0.8  # F1, between the seeds of a variant


def answers(random: np.random.Generator, seeds: int) -> FloatArray:
    """F1 of an average variant on 600 questions about 30 articles, from several seeds."""
    of_seeds = 60 + random.normal(0, SPREAD, (seeds, 1))
    return of_seeds + random.normal(0, 4, (seeds, 600))


ARTICLES = np.repeat(np.arange(30), 20)


@pytest.mark.parametrize("seeds", [2, 3])
def test_equal_models_are_rarely_starred(seeds: int) -> None:
    """The normal quantile, which knows nothing of the number of seeds, would star 11 to 15 %."""
    random = np.random.default_rng(0)
    starred = [
        corrected_gains({0: (answers(random, seeds), answers(random, seeds))}, ARTICLES)[0]
        for _ in range(1000)
    ]
    assert 0.02 <= np.mean([gain.is_significant for gain in starred]) <= 0.05
    assert all(gain.is_significant == gain.is_certain for gain in starred), "one t statistic"


def test_interval_has_students_factor_for_the_seeds() -> None:
    """By hand: Student's t has 0.975 below 4.303 with 2 degrees of freedom, and below 12.71 with
    one. Questions do not vary."""
    after = np.array([[61.0] * 9, [63.0] * 9])
    before = np.array([[60.0] * 9, [60.5] * 9])
    gain, p = t_test(after, before)
    error = np.sqrt((2 + 0.125) / 2)  # the variances of two seeds are 2 and 0.125
    assert (gain.mean, gain.high - gain.mean) == pytest.approx((1.75, 4.303 * error), rel=1e-3)
    assert p == pytest.approx(0.231, abs=1e-3)
    alone, _ = t_test(after)
    assert alone.high - alone.mean == pytest.approx(12.71 * 1, rel=1e-3)
    one, _ = t_test(after, before[:1])
    assert one.high - one.mean == pytest.approx(12.71 * np.sqrt(2 * 1.5), rel=1e-3)


def test_one_seed_says_nothing_of_others() -> None:
    random = np.random.default_rng(0)
    before = 100.0 * random.integers(0, 2, (1, 400))
    gain, p = t_test(before + 3, before)
    assert (gain.mean, gain.low, gain.high, p) == pytest.approx((3, 3, 3, 0))
    gain, p = t_test(before, before)
    assert (gain.mean, gain.low, gain.high, p) == (0, 0, 0, 1)


def test_interval_covers_contexts() -> None:
    """If the ten questions about a context have one score, they say no more than one question."""
    random = np.random.default_rng(1)
    scores = np.repeat(100.0 * random.random((1, 200)), 10, axis=1)
    deviation = scores.std() / np.sqrt(200)
    together, _ = t_test(scores, group_of=np.repeat(np.arange(200), 10))
    assert together.mean == pytest.approx(scores.mean())
    assert together.high - together.mean == pytest.approx(1.96 * deviation, rel=0.02)
    alone, _ = t_test(scores)
    assert alone.high - alone.mean == pytest.approx(1.96 * deviation / np.sqrt(10), rel=0.02)


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


def test_star_follows_the_corrected_p_value() -> None:
    """The interval excludes zero in both cases."""
    assert CorrectedGain(2.0, 0.5, 3.5, p=0.09).text == "+2.00 (+0.50 to +3.50)"
    assert CorrectedGain(2.0, 0.5, 3.5, p=0.04).text == "+2.00 (+0.50 to +3.50) *"
