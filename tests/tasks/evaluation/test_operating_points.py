"""The thresholds that are best for some share of unanswerable questions."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.span_decoding import Predictions
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.metrics import best_threshold, candidate_thresholds, scores_at
from tasks.evaluation.operating_points import (
    OperatingPoint,
    corners,
    operating_points,
    threshold_for,
)
from tests.factories.splits import write_split

MARGINS = st.sampled_from([-2.0, -0.5, 0.0, 0.1, 3.0]) | st.floats(-9, 9)
ROWS = st.lists(
    st.tuples(MARGINS, st.sampled_from([0.0, 0.25, 1.0]), st.booleans()), min_size=2, max_size=15
).filter(lambda rows: len({kind for *_, kind in rows}) == 2)


@given(ROWS, st.floats(0.01, 0.99))
def test_corners_have_the_best_f1_for_every_share(
    rows: list[tuple[float, float, bool]], share: float
) -> None:
    margin, f1, answerable = map(np.array, zip(*rows, strict=True))
    answered, unanswered = np.where(answerable, f1, 0.0), (~answerable).astype(float)

    def expected_f1(threshold: float) -> float:
        limit = np.array([threshold])
        kinds = ((answerable, 1 - share), (~answerable, share))
        return sum(
            weight * scores_at(limit, margin[kind], answered[kind], unanswered[kind])[0]
            for kind, weight in kinds
        )

    points = corners(margin, answered, unanswered, answerable)
    tried = [t for m in margin for t in (m, np.nextafter(m, np.inf))]
    best = expected_f1(threshold_for(points, share))
    assert best == pytest.approx(max(map(expected_f1, tried)))
    limits = candidate_thresholds(margin)
    own, other = (
        scores_at(limits, margin[kind], answered[kind], unanswered[kind])
        for kind in (answerable, ~answerable)
    )
    for point in points:
        equal = limits[(own == point.answerable) & (other == point.unanswerable)]
        assert point.threshold in equal
        assert abs(point.threshold) == abs(equal).min()
    ascending = [point.answerable for point in points]
    assert ascending == sorted(set(ascending))


def test_equal_corners_have_the_threshold_nearest_to_0() -> None:
    margin = np.array([-4.0, -1.0, -0.3, 0.8, 2.0, 5.0])
    answerable = margin < 0.5
    points = corners(margin, answerable.astype(float), (~answerable).astype(float), answerable)
    assert threshold_for(points, 0.5) == 0


def test_questions_without_a_span_need_no_threshold() -> None:
    margin = np.array([-3.0, -1.0, 1.5, 2.0, 2e30])
    assert candidate_thresholds(margin).max() == 3
    assert candidate_thresholds(margin[-1:]).tolist() == [0]


def test_ties_go_to_the_argmax() -> None:
    points = [OperatingPoint(-3.0, 40.0, 90.0), OperatingPoint(0.5, 60.0, 70.0)]
    assert threshold_for(points, 0.5) == 0.5
    assert (threshold_for(points, 0.4), threshold_for(points, 0.6)) == (0.5, -3)


def test_share_of_the_training_has_its_threshold(tmp_path: Path) -> None:
    split = load_split(write_split(tmp_path))
    margins = np.array([1.0, 3.0, 2.0, 3.0])
    spans = np.array([(0, 1), (0, 0), (1, 2), (1, 1)]).T
    predictions = Predictions(*spans, np.full(4, -9.0), margins - 9)
    points = operating_points(split, predictions)
    for share in (0.1, 0.9):
        assert threshold_for(points, share) == best_threshold(split, predictions, share)
