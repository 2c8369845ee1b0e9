"""The numbers that an epoch leaves about a split, under MLflow's metric names."""

from typing import TYPE_CHECKING

import numpy as np

from tasks.calibration import expected_calibration_error, reliability
from tasks.evaluation import Evaluation, EvaluationSplit, evaluate

if TYPE_CHECKING:
    from models.decoding import Predictions

THRESHOLD = "validation/threshold"


def measures(
    name: str, split: EvaluationSplit, predictions: "Predictions", argmax: float
) -> dict[str, float]:
    """`<name>/em`, `/f1` and `/avna` (percent) of the answers at the threshold `argmax`, and
    `/ece`, the expected calibration error of their probabilities (percentage points)."""
    found = evaluate(split, predictions, argmax)
    em = np.array([question.em for question in found.questions])
    ece = expected_calibration_error(reliability(np.exp(found.log_probabilities), em))
    return {**_scores(name, found), f"{name}/ece": ece}


def measures_at(
    name: str, split: EvaluationSplit, predictions: "Predictions", threshold: float
) -> dict[str, float]:
    """`<name>/em_at_threshold`, and so on, of the answers at a threshold that was chosen."""
    scores = _scores(name, evaluate(split, predictions, threshold))
    return {f"{metric}_at_threshold": value for metric, value in scores.items()}


def _scores(name: str, found: Evaluation) -> dict[str, float]:
    scores = found.scores
    return {f"{name}/em": scores.em, f"{name}/f1": scores.f1, f"{name}/avna": scores.avna}
