"""Calibration on a worked example and on edge cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.calibration import Bin, expected_calibration_error, reliability


def test_bins_and_error_match_a_worked_example() -> None:
    bins = reliability(np.array([0.95, 0.05, 0.95, 1.0, 0.5]), np.array([1, 0, 0, 1, 1]))
    assert bins == [
        Bin(pytest.approx(0.05), 0.0, 1),
        Bin(pytest.approx(0.5), 1.0, 1),
        Bin(pytest.approx(2.9 / 3), pytest.approx(2 / 3), 3),
    ]
    # (1·0.05 + 1·0.5 + 3·0.3) / 5
    assert expected_calibration_error(bins) == pytest.approx(29)


def test_error_without_answers_is_nan() -> None:
    assert math.isnan(expected_calibration_error(reliability(np.array([]), np.array([]))))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=50))
def test_every_answer_falls_in_one_bin(answers: list[tuple[float, int]]) -> None:
    probability, em = np.array(answers).T
    bins = reliability(probability, em)
    assert sum(b.count for b in bins) == len(answers)
    assert sum(b.count * b.accuracy for b in bins) == pytest.approx(em.sum())
    error = expected_calibration_error(bins)
    assert abs(100 * (probability.mean() - em.mean())) - 1e-9 <= error <= 100


def test_calibrated_model_has_a_small_error() -> None:
    random = np.random.default_rng(0)
    probability = random.random(100_000)
    em = random.random(100_000) < probability
    assert expected_calibration_error(reliability(probability, em)) < 1
    assert expected_calibration_error(reliability(probability, ~em)) > 40
