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

SMALLEST = 1e-9  # no probability counts as less, nor as closer to 1


def best_temperature(
    split: EvaluationSplit, tempered: TemperedPredictions, threshold: float
) -> float:
    """The temperature for the answers at `threshold`, 0 or infinity, which no temperature changes.

    Unanswerable questions count as often as they occur: their share changes how often a model is
    right, so no temperature suits questions with another share as well.
    """
    questions = evaluate(split, tempered.predictions, threshold).questions
    right = np.array([question.em for question in questions])
    return likeliest_temperature(tempered, threshold, right)


def likeliest_temperature(
    tempered: TemperedPredictions, threshold: float, right: FloatArray
) -> float:
    """As `best_temperature`, for answers of which each is right (1) or wrong (0), (n,)."""

    def likelihood(temperature: float) -> float:
        answers = tempered.at(temperature).answers(threshold)
        shares = np.clip(np.exp(answers.score), SMALLEST, 1 - SMALLEST)
        return float(np.log(np.where(right > 0, shares, 1 - shares)).sum())

    return max(tempered.temperatures, key=likelihood)
