"""The scores of the comparison with a plain implementation."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from benchmarks.step import Data
from benchmarks.studies.reference_f1 import IMPLEMENTATIONS, Settings, measure, read_measured
from benchmarks.trainings.answers import write_predictions
from models.configs.presets import preset
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import EvaluationSplit, Gold

SETTINGS = Settings("own", "baseline", preset("baseline").training)
FACTS = {**asdict(SETTINGS), "seconds": 1.0, "date": "2026-11-27", "machine": {}}


def split_of(id: str) -> EvaluationSplit:
    tokens = (np.array([0]), np.array([4]), np.array([0, 1]))
    zeros, golds = np.zeros(1, np.int64), [[Gold("Lima", 0)]]
    answered = golds, np.array([True]), zeros, zeros
    return EvaluationSplit(["Lima"], *tokens, [id], ["Where?"], zeros, *answered, zeros)


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
    measured = read_measured(written(tmp_path / "a.parquet", argmax), split_of("a"), SETTINGS)
    assert (measured.f1.tolist(), measured.em.tolist()) == ([score], [score])


def test_trains_nothing_whose_answers_are_there(tmp_path: Path) -> None:
    for name in IMPLEMENTATIONS:
        written(tmp_path / f"own-{name}.parquet", math.inf)
    data = cast(Data, None)  # nothing could be trained on it
    measured = measure(tmp_path / "own.json", data, split_of("a"), SETTINGS)
    assert [own.f1.tolist() for own in measured.values()] == 3 * [[100]]


@pytest.mark.parametrize(
    ("id", "settings"),
    [
        ("b", SETTINGS),
        ("a", replace(SETTINGS, dataset="other")),
        ("a", replace(SETTINGS, variant="char")),
        ("a", replace(SETTINGS, config=replace(SETTINGS.config, seed=1))),
    ],
)
def test_refuses_other_questions_and_settings(tmp_path: Path, id: str, settings: Settings) -> None:
    """Before it trains what is missing, here the first two."""
    written(tmp_path / "own-reference.parquet", math.inf)
    with pytest.raises(SystemExit, match="remove the file"):
        measure(tmp_path / "own.json", cast(Data, None), split_of(id), settings)
