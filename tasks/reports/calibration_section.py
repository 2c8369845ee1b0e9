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
CUT_OFF_PERCENT = 1
"""Percentage of the margins that is cut off at each end of the threshold charts."""


@dataclass(frozen=True)
class VariantPredictions:
    """A variant's predictions.parquet, and the no-answer threshold chosen on validation.

    If there is no threshold, `no_threshold_reason` says why.
    """

    name: str
    columns: Columns
    threshold: float | None = None
    no_threshold_reason: str | None = None

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
        best_is_answer = columns["best_prediction"] != ""
        pairs = {  # per question: the score if the best span is answered, and if nothing is
            "em": (columns["best_em"], columns["no_answer_em"]),
            "f1": (columns["best_f1"], columns["no_answer_em"]),
            "avna": (best_is_answer == has_answer, ~has_answer),
        }
        return {
            name: scores_at(thresholds, self.margin, *(np.asarray(side, float) for side in pair))
            for name, pair in pairs.items()
        }


def calibration_view(variants: Sequence[VariantPredictions], split: EvaluationSplit) -> View:
    """The section's data for the template: one row per variant, and the charts."""
    charts = [_reliability_chart(variants)]
    if split.v2:
        charts += [
            _threshold_chart(variants, split, *score) for score in (("f1", "F1"), ("em", "EM"))
        ]
    return {"rows": [_row(variant, split) for variant in variants], "charts": charts}


def _row(variant: VariantPredictions, split: EvaluationSplit) -> View:
    at_threshold = None
    if split.v2 and variant.threshold is not None:
        scores = variant.scores(split, np.array([variant.threshold]))
        at_threshold = {name: float(values[0]) for name, values in scores.items()}
    return {
        "ece": expected_calibration_error(variant.bins()),
        "threshold": variant.threshold,
        "at_threshold": at_threshold,
        "no_threshold_reason": variant.no_threshold_reason,
    }


def _reliability_chart(variants: Sequence[VariantPredictions]) -> View:
    lines = []
    for number, variant in enumerate(variants):
        points: Points = [(100 * bin_.probability, 100 * bin_.accuracy) for bin_ in variant.bins()]
        lines.append(line(number, variant.name, "exact match", points))
    diagonal = guide([(0.0, 0.0), (100.0, 100.0)])
    return plot("Calibration", "confidence, %", "exact match, %", lines, [diagonal])


def _threshold_chart(
    variants: Sequence[VariantPredictions], split: EvaluationSplit, score: str, title: str
) -> View:
    thresholds = _drawn_thresholds(variants)
    lines = []
    for number, variant in enumerate(variants):
        values = variant.scores(split, thresholds)[score]
        lines.append(line(number, variant.name, title, list(zip(thresholds, values, strict=True))))
    drawn = [value for curve in lines for _, value in curve["points"]]
    ends = min(drawn), max(drawn)
    guides = [guide([(0.0, ends[0]), (0.0, ends[1])])] + [
        guide([(variant.threshold, ends[0]), (variant.threshold, ends[1])], number)
        for number, variant in enumerate(variants)
        if variant.threshold is not None
    ]
    return plot(f"{title} by threshold", "no-answer threshold, nats", f"{title}, %", lines, guides)


def _drawn_thresholds(variants: Sequence[VariantPredictions]) -> FloatArray:
    """Thresholds to draw: they cover nearly all margins, and include 0 and the chosen ones."""
    margins = np.concatenate([variant.margin for variant in variants])
    chosen = [variant.threshold for variant in variants if variant.threshold is not None]
    margin_ends = np.percentile(margins, [CUT_OFF_PERCENT, 100 - CUT_OFF_PERCENT])
    low, high = min([*margin_ends, 0.0, *chosen]), max([*margin_ends, 0.0, *chosen])
    return np.unique([*np.linspace(low, high, THRESHOLDS_DRAWN), 0.0, *chosen])
