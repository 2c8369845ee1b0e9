"""The threshold for giving no answer, against exhaustive searches."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.batching import Examples, Ragged
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import evaluate, load_split
from tasks.evaluation.thresholds import (
    best_threshold,
    no_threshold_reason,
    scores_at,
    threshold_of_best_score,
)
from tests.factories.splits import write_split

# Few distinct values, so that ties are common.
QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from([-2.0, -0.5, 0.0, 0.1, 3.0]) | st.floats(-9, 9),
        st.sampled_from([0.0, 0.25, 1.0]),
        st.sampled_from([0.0, 1.0]),
    ),
    min_size=1,
    max_size=12,
)


def scored(questions: list[tuple[float, float, float]], threshold: float) -> float:
    """The mean score (percent), computed question by question."""
    return 100 * float(np.mean([none if m >= threshold else own for m, own, none in questions]))


@given(QUESTIONS)
def test_best_score_matches_exhaustive_search(questions: list[tuple[float, float, float]]) -> None:
    columns = np.array(questions).T
    # The thresholds at each margin and just above it cover all cases.
    tried = np.array([t for m in columns[0] for t in (m, np.nextafter(m, np.inf))])
    expected = [scored(questions, threshold) for threshold in tried]
    assert scores_at(tried, *columns) == pytest.approx(expected)
    best = threshold_of_best_score(*columns)
    assert scored(questions, best) == pytest.approx(max(expected))
    assert scored(questions, best) >= scored(questions, 0.0) - 1e-9


def test_argmax_is_kept_if_nothing_is_gained() -> None:
    """Any threshold in (-1, 2] separates these two questions, and 0 is the argmax."""
    margin = np.array([-1.0, 2.0])
    assert threshold_of_best_score(margin, np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 0


def test_threshold_is_halfway_between_margins() -> None:
    margin = np.array([1.0, 2.0])
    assert threshold_of_best_score(margin, np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.5


def test_best_threshold_maximizes_f1(tmp_path: Path) -> None:
    """Only the second question has no answer; its margin exceeds the others'."""
    split = load_split(write_split(tmp_path))
    margins = np.array([1.0, 5.0, 2.0, 3.0])
    predictions = Predictions(
        np.array([0, 0, 1, 1]), np.array([1, 0, 2, 1]), np.full(4, -9.0), margins - 9
    )
    assert best_threshold(split, predictions) == 4
    assert evaluate(split, predictions, 4).scores.em == 100
    assert evaluate(split, predictions).scores.em == 25


def examples(impossible: list[bool]) -> Examples:
    nothing = np.zeros(len(impossible), dtype=np.int32)
    rows = Ragged.from_rows([[2]] * len(impossible))
    return Examples(rows, rows, nothing, nothing, nothing, np.array(impossible))


def test_explains_why_there_is_no_threshold() -> None:
    both = examples([True, False])
    assert "training split has no unanswerable" in str(no_threshold_reason(examples([False]), both))
    assert "no validation split" in str(no_threshold_reason(both, None))
    assert "validation split lacks" in str(no_threshold_reason(both, examples([True])))
    assert "validation split lacks" in str(no_threshold_reason(both, examples([False, False])))
    assert no_threshold_reason(both, both) is None
