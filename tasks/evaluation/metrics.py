"""The metrics of a split after an epoch, calibration, and the threshold for giving no answer.

SQuAD 2.0's evaluation (Rajpurkar et al., 2018) reports a "best threshold" next to a system's own
choice, but finds it on the evaluated questions themselves. Here it is chosen on other questions.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from models.arrays import BoolArray, FloatArray
from models.squad_metrics import Scores, mean_scores
from tasks.evaluation.evaluate import Evaluation, EvaluationSplit, evaluate

if TYPE_CHECKING:
    from models.batching import Examples
    from models.span_decoding import Predictions

BINS = 10
# Margins of questions without a span, in nats, are higher, because their logits are masked.
NO_SPAN = 1e30
THRESHOLD = "validation/threshold"


@dataclass(frozen=True)
class Bin:
    """The answers whose probability lies in one of several equally wide intervals of 0..1."""

    probability: float  # mean, 0..1
    accuracy: float  # share of exact matches, 0..1
    count: int


def reliability(probability: FloatArray, em: FloatArray) -> list[Bin]:
    """The reliability bins of answers, in ascending order; empty intervals are left out.

    `probability` (n,), 0..1, is the model's probability of each answer; `em` (n,) is its exact
    match, 0 or 1. Source: Guo et al. 2017, section 2.
    """
    number = np.minimum((probability * BINS).astype(int), BINS - 1)
    masks = (number == i for i in range(BINS))
    return [
        Bin(float(probability[mask].mean()), float(em[mask].mean()), int(mask.sum()))
        for mask in masks
        if mask.any()
    ]


def expected_calibration_error(bins: list[Bin]) -> float:
    """The expected calibration error in percentage points; NaN if there are no answers.

    It is the mean, weighted by the answers in each bin, of the absolute difference between mean
    probability and share of exact matches. Source: Guo et al. 2017, equation 3.
    """
    if not bins:
        return math.nan
    errors = (b.count * abs(b.probability - b.accuracy) for b in bins)
    return 100 * sum(errors) / sum(b.count for b in bins)


def evaluation_metrics(name: str, evaluation: Evaluation) -> dict[str, float]:
    """The metrics of all answers of an evaluation.

    `<name>/em`, `/f1` and `/avna` are in percent; `/ece`, the expected calibration error of the
    answer probabilities, is in percentage points.
    """
    em = np.array([question.em for question in evaluation.questions])
    ece = expected_calibration_error(reliability(np.exp(evaluation.log_probabilities), em))
    return {**_named(name, evaluation.scores), f"{name}/ece": ece}


def metrics_within(name: str, evaluation: Evaluation, within: BoolArray) -> dict[str, float]:
    """The metrics of the questions that the mask `within` (n,) selects.

    `<name>/questions_within` is their number; `/em_within`, `/f1_within` and `/avna_within`
    (percent) exist only if it is above 0. They serve for comparison with the published scores of
    CS224n's models, which exclude questions about contexts longer than those trained on.
    """
    pairs = zip(evaluation.questions, within, strict=True)
    selected = [question for question, is_within in pairs if is_within]
    scores = _named(name, mean_scores(selected), "_within") if selected else {}
    return {f"{name}/questions_within": len(selected), **scores}


def mean_nll(nlls: FloatArray, rows: BoolArray) -> float:
    """The mean NLL in nats of the rows that the mask selects; both (n,). NaN if there are none."""
    return float(nlls[rows].mean()) if rows.any() else math.nan


def metrics_at_threshold(
    name: str, split: EvaluationSplit, predictions: "Predictions", threshold: float
) -> dict[str, float]:
    """The scores (percent) of the answers at a chosen threshold.

    They are `<name>/em_at_threshold`, `/f1_at_threshold` and `/avna_at_threshold`.
    """
    return _named(name, evaluate(split, predictions, threshold).scores, "_at_threshold")


def _named(name: str, scores: Scores, suffix: str = "") -> dict[str, float]:
    return {f"{name}/{score}{suffix}": getattr(scores, score) for score in ("em", "f1", "avna")}


def scores_at(
    thresholds: FloatArray, margin: FloatArray, answered: FloatArray, unanswered: FloatArray
) -> FloatArray:
    """The score (percent) of a split at each threshold in nats, (k,).

    `margin` (n,) is the log-probability of no answer minus that of the best span; a question gets
    no answer if it reaches the threshold. `answered` and `unanswered` (n,) are each question's
    score (0..1) with its best span and with no answer.
    """
    order = np.argsort(margin)
    lower = np.searchsorted(margin[order], thresholds)  # number of questions with a lower margin
    gains = np.append(0.0, np.cumsum((answered - unanswered)[order], dtype=np.float64))
    scores: FloatArray = 100 * (unanswered.sum(dtype=np.float64) + gains[lower]) / len(margin)
    return scores


def candidate_thresholds(margin: FloatArray) -> FloatArray:
    """The thresholds that tell questions with margins (n,) apart, ascending.

    They are the midpoints between neighbouring margins, which separate new questions most reliably,
    the lowest margin (no question is answered), the highest margin plus 1 (every question is
    answered), and 0. Questions about a context without tokens have no span, and no answer at any
    threshold.
    """
    distinct = np.unique(margin[margin < NO_SPAN])
    if len(distinct) == 0:
        return np.zeros(1)
    between = (distinct[1:] + distinct[:-1]) / 2
    return np.unique([distinct[0], *between, distinct[-1] + 1, 0.0])


def threshold_of_best_score(
    margin: FloatArray, answered: FloatArray, unanswered: FloatArray
) -> float:
    """The one of the `candidate_thresholds` with the highest score; on ties the nearest to 0, which
    is the argmax. Arguments as in `scores_at`."""
    thresholds = candidate_thresholds(margin)
    scores = scores_at(thresholds, margin, answered, unanswered)
    highest = thresholds[scores == scores.max()]
    return float(highest[np.abs(highest).argmin()])


def best_threshold(
    split: EvaluationSplit, predictions: "Predictions", expected_no_answer: float
) -> float:
    """The threshold with the highest F1 on a split, if it had the expected share of unanswerable
    questions. Raises ValueError as `kind_weights` does."""
    weights = kind_weights(split.answerable, expected_no_answer)
    answered, unanswered = f1_answered_or_not(split, predictions)
    return threshold_of_best_score(predictions.margin, weights * answered, weights * unanswered)


def f1_answered_or_not(
    split: EvaluationSplit, predictions: "Predictions"
) -> tuple[FloatArray, FloatArray]:
    """The F1 (0..1) of each question with its best span and with no answer, (n,) each."""
    spans, none = (
        np.array([question.f1 for question in evaluate(split, predictions, limit).questions])
        for limit in (np.inf, -np.inf)
    )
    return spans, none


def kind_weights(answerable: BoolArray, expected_no_answer: float) -> FloatArray:
    """Importance weights (n,) with mean 1, of which unanswerable questions have the expected share.

    Multiplied by them, the scores of a split estimate those of questions of another share, if each
    kind is distributed alike. Raises ValueError if a kind is missing: no weight makes up for it.
    """
    if answerable.all() or not answerable.any():
        raise ValueError("a threshold needs answerable and unanswerable questions")
    share = 1 - answerable.mean()
    answerable_weight, other_weight = (
        (1 - expected_no_answer) / (1 - share),
        expected_no_answer / share,
    )
    weights: FloatArray = np.where(answerable, answerable_weight, other_weight)
    return weights


def roc_curve(margin: FloatArray, answerable: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The ROC curve of the no-answer score: (k,) false and true positive rates, 0 to 1, ascending.

    A positive is a question that gets no answer, because its margin reaches the threshold; it is
    true if the question is unanswerable. There is a point for each distinct margin, and (0, 0).
    Both kinds must be present. Source: Fawcett 2006, "An introduction to ROC analysis".
    """
    thresholds = np.unique(margin)[::-1]

    def rates(kind: BoolArray) -> FloatArray:
        margins = np.sort(margin[kind])
        reached = len(margins) - np.searchsorted(margins, thresholds)
        return np.append(0.0, reached / len(margins))

    return rates(answerable), rates(~answerable)


def no_answer_auc(margin: FloatArray, answerable: BoolArray) -> float | None:
    """The area under the ROC curve of the no-answer score, 0 to 1; it needs no threshold.

    It is the probability that an unanswerable question has a higher margin than an answerable one;
    ties count half. None if there are no questions of one of the two kinds.
    """
    if answerable.all() or not answerable.any():
        return None
    x, y = roc_curve(margin, answerable)
    return float(np.trapezoid(y, x))


def no_answer_metrics(
    name: str, split: EvaluationSplit, predictions: "Predictions"
) -> dict[str, float]:
    """`<name>/no_answer_auc` (0 to 1); nothing if the split lacks one kind of questions."""
    auc = no_answer_auc(predictions.margin, split.answerable)
    return {} if auc is None else {f"{name}/no_answer_auc": auc}


def share_to_expect(expected: float | None, train: "Examples") -> float:
    """The share of unanswerable questions that a threshold is chosen for: by default train's."""
    return float(train.impossible.mean()) if expected is None else expected


def no_threshold_reason(train: "Examples", validation: "Examples | None") -> str | None:
    """The reason why no threshold can be chosen, as a clause; None if one can."""
    if not train.impossible.any():
        return "the training split has no unanswerable questions"
    if validation is None:
        return "there is no validation split"
    if validation.impossible.all() or not validation.impossible.any():
        return "the validation split lacks answerable or unanswerable questions"
    return None
