"""The report's section on model confidence: calibration, and the no-answer threshold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import FloatArray
from tasks.evaluation.calibration import Bin, expected_calibration_error, reliability
from tasks.evaluation.evaluate import EvaluationSplit
from tasks.evaluation.predictions import Columns
from tasks.evaluation.thresholds import scores_at
from tasks.reports.line_charts import Points, View, guide, line, plot

THRESHOLDS_DRAWN = 120
OUTERMOST = 1
"""Percentage of the margins that is cut off at each end of the threshold charts."""


@dataclass(frozen=True)
class Answered:
    """A variant's predictions.parquet, and the no-answer threshold chosen on validation."""

    name: str
    columns: Columns
    threshold: float | None = None
    why_none: str | None = None

    @property
    def margin(self) -> FloatArray:
        """(n,) log-probability of no answer minus that of the best span, in nats."""
        return np.asarray(self.columns["no_answer_score"] - self.columns["best_score"])

    def bins(self) -> list[Bin]:
        """The answers, binned by their probability."""
        return reliability(np.exp(self.columns["score"]), self.columns["em"])

    def scores(self, split: EvaluationSplit, thresholds: FloatArray) -> dict[str, FloatArray]:
        """EM, F1 and AvNA (percent) at each of k thresholds: (k,) each."""
        columns, has_answer = self.columns, np.array([bool(golds) for golds in split.golds])
        told = columns["best_prediction"] != ""
        parts = {
            "em": (columns["best_em"], columns["no_answer_em"]),
            "f1": (columns["best_f1"], columns["no_answer_em"]),
            "avna": (told == has_answer, ~has_answer),
        }
        return {
            name: scores_at(thresholds, self.margin, *(np.asarray(part, float) for part in pair))
            for name, pair in parts.items()
        }


def certainty(answered: Sequence[Answered], split: EvaluationSplit) -> View:
    """The section's data for the template: one row per variant, and the charts."""
    charts = [_reliability_chart(answered)]
    if split.v2:
        charts += [
            _threshold_chart(answered, split, *kind) for kind in (("f1", "F1"), ("em", "EM"))
        ]
    return {"rows": [_row(one, split) for one in answered], "charts": charts}


def _row(one: Answered, split: EvaluationSplit) -> View:
    at = None
    if split.v2 and one.threshold is not None:
        scores = one.scores(split, np.array([one.threshold]))
        at = {name: float(values[0]) for name, values in scores.items()}
    return {
        "ece": expected_calibration_error(one.bins()),
        "threshold": one.threshold,
        "at_threshold": at,
        "why_none": one.why_none,
    }


def _reliability_chart(answered: Sequence[Answered]) -> View:
    lines = []
    for number, one in enumerate(answered):
        points: Points = [(100 * each.probability, 100 * each.right) for each in one.bins()]
        lines.append(line(number, one.name, "right answers", points))
    diagonal = guide([(0.0, 0.0), (100.0, 100.0)])
    return plot("Calibration", "probability, %", "exact match, %", lines, [diagonal])


def _threshold_chart(
    answered: Sequence[Answered], split: EvaluationSplit, score: str, title: str
) -> View:
    thresholds = _drawn(answered)
    lines = []
    for number, one in enumerate(answered):
        values = one.scores(split, thresholds)[score]
        lines.append(line(number, one.name, title, list(zip(thresholds, values, strict=True))))
    drawn = [value for one in lines for _, value in one["points"]]
    ends = min(drawn), max(drawn)
    guides = [guide([(0.0, ends[0]), (0.0, ends[1])])] + [
        guide([(one.threshold, ends[0]), (one.threshold, ends[1])], number)
        for number, one in enumerate(answered)
        if one.threshold is not None
    ]
    return plot(f"{title} by threshold", "threshold, nats", f"{title}, %", lines, guides)


def _drawn(answered: Sequence[Answered]) -> FloatArray:
    """Thresholds to draw: they cover nearly all margins, and include 0 and the chosen ones."""
    margins = np.concatenate([one.margin for one in answered])
    chosen = [one.threshold for one in answered if one.threshold is not None]
    outermost = np.percentile(margins, [OUTERMOST, 100 - OUTERMOST])
    low, high = min([*outermost, 0.0, *chosen]), max([*outermost, 0.0, *chosen])
    return np.unique([*np.linspace(low, high, THRESHOLDS_DRAWN), 0.0, *chosen])
