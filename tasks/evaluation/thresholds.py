"""Chooses the threshold for giving no answer, on the validation split.

SQuAD 2.0's evaluation (Rajpurkar et al., 2018) reports a "best threshold" next to a system's own
choice, but finds it on the evaluated questions themselves. Here it is chosen on other questions.
"""

from typing import TYPE_CHECKING

import numpy as np

from models.arrays import FloatArray
from tasks.evaluation.evaluate import EvaluationSplit, evaluate

if TYPE_CHECKING:
    from models.batching import Examples
    from models.span_decoding import Predictions


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


def threshold_of_best_score(
    margin: FloatArray, answered: FloatArray, unanswered: FloatArray
) -> float:
    """The threshold with the highest score; on ties the nearest to 0, which is the argmax.

    The candidates are the midpoints between neighbouring margins, which separate new questions most
    reliably, the lowest margin (no question is answered), the highest margin plus 1 (every question
    is answered), and 0. Arguments as in `scores_at`.
    """
    distinct = np.unique(margin)
    between = (distinct[1:] + distinct[:-1]) / 2
    thresholds = np.unique([distinct[0], *between, distinct[-1] + 1, 0.0])
    scores = scores_at(thresholds, margin, answered, unanswered)
    highest = thresholds[scores == scores.max()]
    return float(highest[np.abs(highest).argmin()])


def best_threshold(split: EvaluationSplit, predictions: "Predictions") -> float:
    """The threshold with the highest F1 on a split."""
    answered, unanswered = (
        np.array([question.f1 for question in evaluate(split, predictions, limit).questions])
        for limit in (np.inf, -np.inf)
    )
    return threshold_of_best_score(predictions.margin, answered, unanswered)


def no_threshold_reason(train: "Examples", validation: "Examples | None") -> str | None:
    """The reason why no threshold can be chosen, as a clause; None if one can."""
    if not train.impossible.any():
        return "the training split has no unanswerable questions"
    if validation is None:
        return "there is no validation split"
    if validation.impossible.all() or not validation.impossible.any():
        return "the validation split lacks answerable or unanswerable questions"
    return None
