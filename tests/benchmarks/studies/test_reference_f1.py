"""The scores of the comparison with a plain implementation."""

import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from benchmarks.step import Data
from benchmarks.studies.reference_f1 import measure, read_measured
from benchmarks.trainings.answers import write_predictions
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import EvaluationSplit, Gold

SETTINGS = {"variant": "baseline", "config": {"seed": 0}}
FACTS = {**SETTINGS, "seconds": 1.0, "date": "2026-11-27", "machine": {}}


def split_of(id: str) -> EvaluationSplit:
    tokens = (np.array([0]), np.array([4]), np.array([0, 1]))
    zeros, golds = np.zeros(1, np.int64), [[Gold("Lima", 0)]]
    answered = golds, np.array([True]), zeros, zeros
    return EvaluationSplit(["Lima"], *tokens, [id], ["Where?"], zeros, *answered)


def written(file: Path, argmax: float) -> Path:
    """A file of answers: no answer is more probable than the span, which is right."""
    zeros = np.zeros(1, np.int64)
    predictions = Predictions(zeros, zeros, np.array([-2.0]), np.array([-1.0]))
    write_predictions(file, split_of("a"), predictions, argmax, FACTS)
    return file


@pytest.mark.parametrize(("argmax", "score"), [(math.inf, 100), (0.0, 0)])
def test_spans_only_where_training_had_answers_only(
    tmp_path: Path, argmax: float, score: int
) -> None:
    file = written(tmp_path / "a.parquet", argmax)
    data = cast(Data, None)  # what has answers is not trained
    measured = measure("reference", data, split_of("a"), SETTINGS, file)
    assert (measured.f1.tolist(), measured.em.tolist()) == ([score], [score])


@pytest.mark.parametrize(
    ("id", "settings"), [("b", SETTINGS), ("a", {**SETTINGS, "variant": "char"})]
)
def test_refuses_other_questions_and_settings(
    tmp_path: Path, id: str, settings: dict[str, object]
) -> None:
    with pytest.raises(SystemExit, match="remove the file"):
        read_measured(written(tmp_path / "a.parquet", 0.0), split_of(id), settings)
