"""The metrics of a split after an epoch, under their MLflow names."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from models.arrays import BoolArray, FloatArray
from models.squad_metrics import QuestionScore, mean_scores
from tasks.evaluation.calibration import expected_calibration_error, reliability
from tasks.evaluation.evaluate import Evaluation, EvaluationSplit, evaluate

if TYPE_CHECKING:
    from models.span_decoding import Predictions

THRESHOLD = "validation/threshold"


def evaluation_metrics(name: str, evaluation: Evaluation) -> dict[str, float]:
    """The metrics of all answers of an evaluation.

    `<name>/em`, `/f1` and `/avna` are in percent; `/ece`, the expected calibration error of the
    answer probabilities, is in percentage points.
    """
    em = np.array([question.em for question in evaluation.questions])
    ece = expected_calibration_error(reliability(np.exp(evaluation.log_probabilities), em))
    return {**_scores(name, evaluation.questions), f"{name}/ece": ece}


def metrics_within(name: str, evaluation: Evaluation, within: BoolArray) -> dict[str, float]:
    """The metrics of the questions that the mask `within` (n,) selects.

    `<name>/questions_within` is their number; `/em_within`, `/f1_within` and `/avna_within`
    (percent) exist only if it is above 0. They serve for comparison with the published scores of
    CS224n's models, which exclude questions about contexts longer than those trained on.
    """
    pairs = zip(evaluation.questions, within, strict=True)
    selected = [question for question, is_within in pairs if is_within]
    scores = _scores(name, selected) if selected else {}
    metrics = {f"{metric}_within": value for metric, value in scores.items()}
    return {f"{name}/questions_within": len(selected), **metrics}


def mean_nll(nlls: FloatArray, rows: BoolArray) -> float:
    """The mean NLL in nats of the rows that the mask selects; both (n,). NaN if there are none."""
    return float(nlls[rows].mean()) if rows.any() else math.nan


def metrics_at_threshold(
    name: str, split: EvaluationSplit, predictions: "Predictions", threshold: float
) -> dict[str, float]:
    """The scores (percent) of the answers at a chosen threshold.

    They are `<name>/em_at_threshold`, `/f1_at_threshold` and `/avna_at_threshold`.
    """
    scores = _scores(name, evaluate(split, predictions, threshold).questions)
    return {f"{metric}_at_threshold": value for metric, value in scores.items()}


def _scores(name: str, questions: Sequence[QuestionScore]) -> dict[str, float]:
    scores = mean_scores(questions)
    return {f"{name}/em": scores.em, f"{name}/f1": scores.f1, f"{name}/avna": scores.avna}
