"""The scores of an epoch: what a model's predictions for validation and dev are worth."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.arrays import FloatArray
from models.batching import Examples
from models.configs.variant import TrainingConfig
from models.span_decoding import Predictions, argmax_threshold
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, mean
from tasks.evaluation.metrics import (
    THRESHOLD,
    best_threshold,
    evaluation_metrics,
    mean_nll,
    metrics_at_threshold,
    metrics_within,
    no_answer_metrics,
    no_threshold_reason,
    share_to_expect,
)
from tasks.evaluation.validation_parts import is_stopping

STOPPING_F1 = "validation/f1_stopping"


@dataclass(frozen=True)
class EvaluatedSplit:
    """A split that is evaluated after each epoch, as questions and as the model's examples."""

    split: EvaluationSplit
    examples: Examples


def epoch_scores(
    evaluated: Mapping[str, EvaluatedSplit],
    answered: Mapping[str, tuple[Predictions, FloatArray]],
    train: Examples,
    training: TrainingConfig,
) -> dict[str, float]:
    """Scores by the official rules on every question of "validation" and "dev", from the
    predictions for them and the NLLs of their targets.

    If a no-answer threshold can be chosen, the best one on validation, weighted to the expected
    share of unanswerable questions, is applied to both splits. It is chosen on all of validation:
    promotions, which part of it decides, are about answers without a threshold.

    If the training chooses its epoch, `STOPPING_F1` is the F1 by which it does (see
    `tasks.evaluation.validation_parts`). Dev is also scored without contexts
    longer than the training limit (`max_context_tokens`).
    """
    argmax = argmax_threshold(bool(train.impossible.any()))
    validation = evaluated.get("validation")
    chooses = not no_threshold_reason(train, validation.examples if validation else None)
    scores: dict[str, float] = {}
    for name in sorted(evaluated, key=lambda name: name != "validation"):  # it comes first
        split, examples = evaluated[name].split, evaluated[name].examples
        predictions, nlls = answered[name]
        evaluation = evaluate(split, predictions, argmax)
        scores |= evaluation_metrics(name, evaluation)
        scores[f"{name}/nll"] = mean_nll(nlls, examples.has_target)
        scores |= no_answer_metrics(name, split, predictions)
        if training.chooses_epoch and name == "validation":
            f1 = np.array([question.f1 for question in evaluation.questions])
            scores[STOPPING_F1] = mean(f1[is_stopping(split)])
        if chooses and name == "validation":
            expected = share_to_expect(training.expected_no_answer, train)
            scores[THRESHOLD] = best_threshold(split, predictions, expected)
        if chooses:
            scores |= metrics_at_threshold(name, split, predictions, scores[THRESHOLD])
        if name == "dev":
            within = examples.context_lengths <= training.max_context_tokens
            scores |= metrics_within(name, evaluation, within)
            scores["dev/nll_within"] = mean_nll(nlls, examples.has_target & within)
    return scores
