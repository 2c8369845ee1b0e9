"""The no-answer thresholds that are best for some share of unanswerable questions.

At a share p, the mean F1 is (1 - p)·a + p·u, with the F1 a of the answerable questions and u of the
unanswerable ones at a threshold. The best thresholds for all shares are therefore the corners of
the upper convex hull of the points (a, u), as in Provost and Fawcett (2001), "Robust classification
for imprecise environments", section 3.
"""

from collections.abc import Sequence
from typing import NamedTuple

from models.arrays import BoolArray, FloatArray
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import EvaluationSplit
from tasks.evaluation.metrics import candidate_thresholds, f1_answered_or_not, scores_at


class OperatingPoint(NamedTuple):
    """What a no-answer threshold (nats) brings: F1 (percent) of each kind of questions."""

    threshold: float
    answerable: float
    unanswerable: float


def operating_points(split: EvaluationSplit, predictions: Predictions) -> list[OperatingPoint]:
    """The corners for the predictions for a split."""
    answered, unanswered = f1_answered_or_not(split, predictions)
    return corners(predictions.margin, answered, unanswered, split.answerable)


def corners(
    margin: FloatArray, answered: FloatArray, unanswered: FloatArray, answerable: BoolArray
) -> list[OperatingPoint]:
    """The corners of the hull, by ascending F1 of the answerable questions; both kinds must be
    present. The first three arguments are as in `scores_at`; `answerable` is (n,)."""
    thresholds = candidate_thresholds(margin)
    f1 = [
        scores_at(thresholds, margin[kind], answered[kind], unanswered[kind])
        for kind in (answerable, ~answerable)
    ]
    points = [OperatingPoint(*map(float, point)) for point in zip(thresholds, *f1, strict=True)]
    return _upper_hull(points)


def threshold_for(points: Sequence[OperatingPoint], share: float) -> float:
    """The best threshold (nats) for a share of unanswerable questions; on ties the nearest to 0."""

    def merit(point: OperatingPoint) -> tuple[float, float]:
        f1 = (1 - share) * point.answerable + share * point.unanswerable
        return f1, -abs(point.threshold)

    return max(points, key=merit).threshold


def _upper_hull(points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
    """The corners of the upper convex hull; of equal points the one whose threshold is nearest to
    0. Monotone chain (Andrew, 1979)."""
    hull: list[OperatingPoint] = []
    for point in sorted(points, key=lambda p: (p.answerable, -p.unanswerable, abs(p.threshold))):
        if hull and point.answerable == hull[-1].answerable:
            continue
        while len(hull) > 1 and not _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns_right(first: OperatingPoint, second: OperatingPoint, third: OperatingPoint) -> bool:
    return (second.answerable - first.answerable) * (third.unanswerable - first.unanswerable) < (
        second.unanswerable - first.unanswerable
    ) * (third.answerable - first.answerable)
