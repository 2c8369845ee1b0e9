"""From when on a question counts as unanswerable: the threshold, chosen on validation.

SQuAD 2.0's evaluation (Rajpurkar et al., 2018) reports a "best threshold" beside a system's own
choice, found on the very questions that are scored. Here it is found on others.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from models.squad_metrics import score_questions
from tasks.evaluation.evaluate import EvaluationSplit, evaluate

if TYPE_CHECKING:
    from models.batching import Examples
    from models.span_decoding import Predictions

FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Curve:
    """What a split scores at each threshold that makes a difference, in rising order: (k,) each.

    No answer is given where the margin, the log-probability of no answer minus that of the best
    span, reaches the threshold: at the first one everywhere, at the last one nowhere.
    """

    thresholds: FloatArray  # nats
    scores: FloatArray  # percent

    def best(self) -> float:
        """The threshold with the highest score; of several the one nearest to 0, the argmax."""
        highest = self.thresholds[self.scores == self.scores.max()]
        return float(highest[np.abs(highest).argmin()])


def score_curve(margin: FloatArray, answered: FloatArray, unanswered: FloatArray) -> Curve:
    """The curve of a score (0..1), given what each question gets by its best span and by no answer.

    Thresholds lie halfway between neighbouring margins, where new questions are told apart most
    safely, beyond the outermost ones, and at 0.
    """
    distinct = np.unique(margin)
    between = (distinct[1:] + distinct[:-1]) / 2
    thresholds = np.unique([distinct[0], *between, distinct[-1] + 1, 0.0])
    return Curve(thresholds, scores_at(thresholds, margin, answered, unanswered))


def scores_at(
    thresholds: FloatArray, margin: FloatArray, answered: FloatArray, unanswered: FloatArray
) -> FloatArray:
    """A score (percent) at each of some thresholds, (k,); see `score_curve`."""
    order = np.argsort(margin)
    given = np.searchsorted(margin[order], thresholds)  # questions whose margin lies below
    gains = np.append(0.0, np.cumsum((answered - unanswered)[order], dtype=np.float64))
    scores: FloatArray = 100 * (unanswered.sum(dtype=np.float64) + gains[given]) / len(margin)
    return scores


def best_threshold(split: EvaluationSplit, predictions: "Predictions") -> float:
    """The threshold with the highest F1 on a split."""
    answered = evaluate(split, predictions, np.inf).questions
    unanswered = score_questions([""] * len(split), split.gold_texts, v2=split.v2)
    f1s = (np.array([question.f1 for question in part]) for part in (answered, unanswered))
    return score_curve(predictions.margin, *f1s).best()


def why_none(train: "Examples", validation: "Examples | None") -> str | None:
    """Why no threshold can be chosen, as a clause; None where one can."""
    if not train.impossible.any():
        return "no training question is without an answer"
    if validation is None:
        return "there is no validation split to choose it on"
    if validation.impossible.all() or not validation.impossible.any():
        return "the validation split does not hold questions of both kinds"
    return None
