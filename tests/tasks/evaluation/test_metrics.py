"""An epoch's metrics on a split: over all questions, and over those with short contexts."""

import math
from pathlib import Path

import numpy as np
import pytest

from models.span_decoding import Predictions
from tasks.evaluation.evaluate import Evaluation, evaluate, load_split
from tasks.evaluation.metrics import evaluation_metrics, mean_nll, metrics_within
from tests.factories.splits import write_split


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    """Four answers: right, a span for an unanswerable question, partly right, wrong."""
    spans = np.array([(0, 1), (0, 0), (2, 2), (0, 0)]).T
    scores = np.full(4, -0.5)
    return evaluate(load_split(write_split(tmp_path)), Predictions(*spans, scores, scores - 1))


def test_within_metrics_exclude_long_contexts(evaluation: Evaluation) -> None:
    overall = evaluation_metrics("dev", evaluation)
    assert (overall["dev/em"], overall["dev/avna"]) == (25, 75)
    split_lengths = np.array([5, 5, 3, 2])
    within = metrics_within("dev", evaluation, split_lengths <= 3)
    assert within == {
        "dev/questions_within": 2,
        "dev/em_within": 0,
        "dev/f1_within": pytest.approx(100 / 3),
        "dev/avna_within": 100,
    }
    same = metrics_within("dev", evaluation, split_lengths <= 5)
    assert same["dev/questions_within"] == 4
    assert same["dev/f1_within"] == overall["dev/f1"]
    nothing = metrics_within("dev", evaluation, split_lengths <= 1)
    assert nothing == {"dev/questions_within": 0}


def test_mean_nll_propagates_nan_of_target_rows() -> None:
    nlls = np.array([1.0, math.nan, 4.0, 7.0])
    assert mean_nll(nlls, np.array([True, False, False, True])) == 4
    assert math.isnan(mean_nll(nlls, np.array([True, True, False, False])))
    assert math.isnan(mean_nll(nlls, np.zeros(4, bool)))
