"""The scores of the comparison with a plain implementation."""

import math

import numpy as np

from benchmarks.studies.reference_f1 import question_scores
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import EvaluationSplit, Gold


def test_spans_only_where_training_had_answers_only() -> None:
    """No answer is more probable than the span, which is right."""
    tokens = (np.array([0]), np.array([4]), np.array([0, 1]))
    zeros, golds = np.zeros(1, np.int64), [[Gold("Lima", 0)]]
    answered = golds, np.array([True]), zeros, zeros
    split = EvaluationSplit(["Lima"], *tokens, ["a"], ["Where?"], zeros, *answered)
    predictions = Predictions(zeros, zeros, np.array([-2.0]), np.array([-1.0]))
    f1, em = question_scores(split, predictions, math.inf)
    assert (f1.tolist(), em) == ([100], 100)
    f1, em = question_scores(split, predictions, 0.0)
    assert (f1.tolist(), em) == ([0], 0)
