"""Answers of a finished training, scored at any threshold."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trainings.answered import answers_of
from benchmarks.trainings.trained import Trained
from tasks.evaluation.evaluate import evaluate, load_split
from tasks.evaluation.metrics import best_threshold, no_answer_auc
from tests.factories.finished_trainings import predictions_of, write_stages, write_training


def test_outputs_give_the_scores_of_any_threshold(tmp_path: Path) -> None:
    data = write_stages(tmp_path)
    trained = Trained(write_training(data, "0"))
    answered = answers_of(trained, 0.5)
    split = load_split(data.dev.ingested)
    predictions = predictions_of(data, trained.variant, "dev")
    for threshold in (-math.inf, *predictions.margin[:3], 0.0, math.inf):
        expected = evaluate(split, predictions, float(threshold)).scores
        means = answered.at(float(threshold)).means
        assert means == pytest.approx([expected.em, expected.f1, expected.avna], rel=1e-5)
    area = no_answer_auc(predictions.margin, split.answerable)
    assert answered.auc == pytest.approx(area, abs=1e-4)
    lengths = split.context_lengths[split.context_of]
    limit = trained.variant.training.max_context_tokens
    assert answered.within.tolist() == (lengths <= limit).tolist()
    shortest = lengths == lengths.min()
    assert answered.take(shortest).margin.tolist() == answered.margin[shortest].tolist()
    best = max(evaluate(split, predictions, float(t)).scores.f1 for t in predictions.margin)
    assert answered.oracle_f1 >= best - 1e-4
    assert np.mean(answered.answerable) == 0.5


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_threshold_is_the_one_for_the_share(tmp_path: Path, share: float) -> None:
    data = write_stages(tmp_path)
    trained = Trained(write_training(data, "0"))
    assert data.validation is not None
    validation = load_split(data.validation.ingested)
    predictions = predictions_of(data, trained.variant, "validation")
    expected = best_threshold(validation, predictions, share)
    assert answers_of(trained, share).threshold == pytest.approx(expected)
