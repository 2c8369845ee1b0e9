"""The temperature at which a model's probabilities tell best which of its answers are right.

Guo et al. (2017, section 4.2) choose the temperature that gives the right classes the highest
likelihood. Here, several spans may be right: the official rules ignore articles and punctuation,
and the probability of an annotated span is only a part of that of all spans that match it. Fitted
to the annotated spans, probabilities would be too low. So it is the likelihood of the events that
answers are right or wrong which the temperature makes highest.
"""

import numpy as np

from models.arrays import FloatArray
from models.span_decoding import TemperedPredictions
from tasks.evaluation.evaluate import EvaluationSplit, evaluate
from tasks.evaluation.metrics import kind_weights

SMALLEST = 1e-9  # no probability counts as less, nor as closer to 1


def best_temperature(
    split: EvaluationSplit,
    tempered: TemperedPredictions,
    threshold: float,
    expected_no_answer: float | None = None,
) -> float:
    """The temperature for the answers at `threshold`, 0 or infinity, which no temperature changes.

    With `expected_no_answer`, unanswerable questions count with this share instead of their own.
    """
    questions = evaluate(split, tempered.predictions, threshold).questions
    right = np.array([question.em for question in questions], dtype=float)
    weights = (
        np.ones_like(right)
        if expected_no_answer is None
        else kind_weights(split.answerable, expected_no_answer)
    )
    return likeliest_temperature(tempered, threshold, right, weights)


def likeliest_temperature(
    tempered: TemperedPredictions, threshold: float, right: FloatArray, weights: FloatArray
) -> float:
    """As `best_temperature`, for answers that are right (1) or wrong (0), with weights, (n,)
    each."""

    def likelihood(temperature: float) -> float:
        answers = tempered.at(temperature).answers(threshold)
        shares = np.clip(np.exp(answers.score), SMALLEST, 1 - SMALLEST)
        return float((weights * np.log(np.where(right > 0, shares, 1 - shares))).sum())

    return max(tempered.temperatures, key=likelihood)
