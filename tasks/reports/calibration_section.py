"""The report's section on model confidence: calibration, and the no-answer threshold."""

from collections.abc import Sequence

import numpy as np

from models.arrays import FloatArray
from tasks.evaluation.evaluate import EvaluationSplit
from tasks.evaluation.metrics import (
    Bin,
    expected_calibration_error,
    no_answer_auc,
    reliability,
    roc_curve,
    scores_at,
)
from tasks.reports.charts import guide, line, plot
from tasks.reports.html import View
from tasks.reports.variant_result import VariantResult

THRESHOLDS_DRAWN = 120
POINTS_DRAWN = 120  # of each ROC curve
# Percentage of the margins that is cut off at each end of the threshold charts.
CUT_OFF_PERCENT = 1


def calibration_view(variants: Sequence[VariantResult], split: EvaluationSplit) -> View:
    """The section's data for the template: one row per variant, and the charts."""
    charts = [_reliability_chart(variants)]
    if split.v2:
        charts += [
            _threshold_chart(variants, split, *score) for score in (("f1", "F1"), ("em", "EM"))
        ]
    if _has_both_kinds(split):
        charts.append(_roc_chart(variants, split))
    return {
        "rows": [_row(variant, split) for variant in variants],
        "charts": charts,
        "has_auc": _has_both_kinds(split),
    }


def scores_by_threshold(
    variant: VariantResult, split: EvaluationSplit, thresholds: FloatArray
) -> dict[str, FloatArray]:
    """EM, F1 and AvNA (percent) of a variant at each of k thresholds: (k,) each."""
    answers = variant.answers
    best_is_answer = answers["best_prediction"] != ""
    pairs = {  # per question: the score if the best span is answered, and if nothing is
        "em": (answers["best_em"], answers["no_answer_em"]),
        "f1": (answers["best_f1"], answers["no_answer_em"]),
        "avna": (best_is_answer == split.answerable, ~split.answerable),
    }
    return {
        name: scores_at(thresholds, _margin(variant), *(np.asarray(side, float) for side in pair))
        for name, pair in pairs.items()
    }


def _has_both_kinds(split: EvaluationSplit) -> bool:
    return bool(split.answerable.any() and not split.answerable.all())


def _margin(variant: VariantResult) -> FloatArray:
    """(n,) log-probability of no answer minus that of the best span, in nats."""
    return np.asarray(variant.answers["no_answer_score"] - variant.answers["best_score"])


def _bins(variant: VariantResult, score: str = "score") -> list[Bin]:
    return reliability(np.exp(variant.answers[score]), variant.answers["em"])


def _points(bins: Sequence[Bin]) -> list[tuple[float, float]]:
    return [(100 * bin_.probability, 100 * bin_.accuracy) for bin_ in bins]


def _row(variant: VariantResult, split: EvaluationSplit) -> View:
    threshold = variant.facts["threshold"]
    has_threshold = split.v2 and threshold is not None
    scores = scores_by_threshold(variant, split, np.array([threshold])) if has_threshold else {}
    return {
        "ece": expected_calibration_error(_bins(variant)),
        "ece_before": expected_calibration_error(_bins(variant, "uncalibrated_score")),
        "temperature": variant.facts["temperature"],
        "threshold": threshold,
        "auc": no_answer_auc(_margin(variant), split.answerable),
        "expected_no_answer": variant.facts["expected_no_answer"],
        "at_threshold": {name: float(values[0]) for name, values in scores.items()} or None,
        "no_threshold_reason": variant.facts["no_threshold"],
    }


def _reliability_chart(variants: Sequence[VariantResult]) -> View:
    lines = [
        line(
            number,
            variant.name,
            "exact match",
            _points(_bins(variant)),
        )
        for number, variant in enumerate(variants)
    ]
    guides = [
        guide(_points(_bins(variant, "uncalibrated_score")), number)
        for number, variant in enumerate(variants)
        if variant.facts["temperature"] != 1
    ]
    guides.append(guide([(0.0, 0.0), (100.0, 100.0)]))
    return plot("Calibration", "confidence, %", "exact match, %", lines, guides)


def _roc_chart(variants: Sequence[VariantResult], split: EvaluationSplit) -> View:
    lines = []
    for number, variant in enumerate(variants):
        false, true = roc_curve(_margin(variant), split.answerable)
        drawn = np.linspace(0, len(false) - 1, min(len(false), POINTS_DRAWN)).round().astype(int)
        points = list(zip(100 * false[drawn], 100 * true[drawn], strict=True))
        lines.append(line(number, variant.name, "unanswerable questions without answer", points))
    return plot(
        "ROC curve of the no-answer score",
        "answerable: no answer, %",
        "unanswerable: no answer, %",
        lines,
        [guide([(0.0, 0.0), (100.0, 100.0)])],
    )


def _threshold_chart(
    variants: Sequence[VariantResult], split: EvaluationSplit, score: str, title: str
) -> View:
    chosen = [
        (number, variant.facts["threshold"])
        for number, variant in enumerate(variants)
        if variant.facts["threshold"] is not None
    ]
    thresholds = _drawn_thresholds(variants, [threshold for _, threshold in chosen])
    curves = [scores_by_threshold(variant, split, thresholds)[score] for variant in variants]
    lines = [
        line(number, variant.name, title, list(zip(thresholds, curve, strict=True)))
        for number, (variant, curve) in enumerate(zip(variants, curves, strict=True))
    ]
    ends = float(np.min(curves)), float(np.max(curves))
    guides = [
        guide([(threshold, ends[0]), (threshold, ends[1])], number)
        for number, threshold in [(None, 0.0), *chosen]
    ]
    return plot(f"{title} by threshold", "no-answer threshold, nats", f"{title}, %", lines, guides)


def _drawn_thresholds(variants: Sequence[VariantResult], chosen: Sequence[float]) -> FloatArray:
    """Thresholds to draw: they cover nearly all margins, and include 0 and the chosen ones."""
    margins = np.concatenate([_margin(variant) for variant in variants])
    margin_ends = np.percentile(margins, [CUT_OFF_PERCENT, 100 - CUT_OFF_PERCENT])
    low, high = min([*margin_ends, 0.0, *chosen]), max([*margin_ends, 0.0, *chosen])
    return np.unique([*np.linspace(low, high, THRESHOLDS_DRAWN), 0.0, *chosen])
