"""The scores of an epoch, and the threshold that validation chooses for them."""

from pathlib import Path

import numpy as np
import pytest

from models.arrays import FloatArray
from models.batching import Examples, Ragged
from models.configs.presets import preset
from models.configs.variant import TrainingConfig
from models.span_decoding import Predictions
from tasks.evaluation import validation_parts
from tasks.evaluation.epoch_scores import STOPPING_F1, EvaluatedSplit, epoch_scores
from tasks.evaluation.evaluate import load_split
from tests.factories.splits import write_split

TRAINING: TrainingConfig = preset("baseline").training


@pytest.fixture
def evaluated(tmp_path: Path) -> EvaluatedSplit:
    """Four questions, the second of which is unanswerable, about contexts of 5, 5, 3 and 2
    tokens."""
    return EvaluatedSplit(load_split(write_split(tmp_path)), examples([5, 5, 3, 2]))


def examples(lengths: list[int]) -> Examples:
    """Questions about contexts of these lengths, the second of which is unanswerable."""
    contexts = Ragged.from_rows([[2] * length for length in lengths])
    rows = np.arange(len(lengths), dtype=np.int32)
    questions = Ragged.from_rows([[2]] * len(lengths))
    return Examples(contexts, questions, rows, rows * 0, rows * 0, rows == 1)


def answers(margins: list[float]) -> tuple[Predictions, FloatArray]:
    """Spans for all questions, of these margins, and NLLs of 1, 2, 3 and 4."""
    spans = np.array([(0, 1), (0, 0), (2, 2), (0, 0)]).T
    scores = np.full(4, -1.0)
    return Predictions(*spans, scores, scores + margins), np.arange(1.0, 5)


def test_validation_chooses_the_threshold_of_both(evaluated: EvaluatedSplit) -> None:
    training = preset("baseline").with_changes(max_context_tokens=3).training
    splits = {"dev": evaluated, "validation": evaluated}  # in any order
    answered = {"validation": answers([1, 3, 1, 1]), "dev": answers([1, 1.5, 1, 1])}
    scores = epoch_scores(splits, answered, evaluated.examples, training)
    assert scores["validation/threshold"] == 2
    assert scores["validation/avna"] == 25, "by argmax, every question gets no answer"
    assert scores["validation/avna_at_threshold"] == 100
    assert scores["dev/avna_at_threshold"] == 75
    assert scores["dev/no_answer_auc"] == 1
    assert (scores["dev/nll"], scores["dev/nll_within"]) == (2.5, 3.5)
    assert scores["dev/questions_within"] == 2
    assert "validation/nll_within" not in scores


def test_no_threshold_without_validation(evaluated: EvaluatedSplit) -> None:
    dev, answered = {"dev": evaluated}, {"dev": answers([1, 3, 1, 1])}
    scores = epoch_scores(dev, answered, evaluated.examples, TRAINING)
    assert not any("threshold" in name for name in scores)
    assert scores["dev/avna"] == 25


def test_deciding_articles_choose_no_epoch(
    evaluated: EvaluatedSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the three articles decide, which is enough here."""
    monkeypatch.setattr(validation_parts, "LEAST_DECIDING_ARTICLES", 2)
    answered = {"validation": answers([-1, -1, -1, -1]), "dev": answers([1, 3, 1, 1])}
    splits = {"validation": evaluated, "dev": evaluated}
    patient = preset("baseline").with_changes(patience=2).training
    scores = epoch_scores(splits, answered, evaluated.examples, patient)
    stopping = ~validation_parts.is_deciding(evaluated.split)
    f1 = np.array([1.0, 0, 2 / 3, 0])  # of "Ada Lovelace", an answer to q2, "3", "a"
    assert scores["validation/f1"] == pytest.approx(100 * f1.mean())
    assert scores[STOPPING_F1] == pytest.approx(100 * f1[stopping].mean())
    assert 0 < stopping.sum() < 4
    assert STOPPING_F1 not in epoch_scores(splits, answered, evaluated.examples, TRAINING)
