"""Answers of a file, scored at any threshold."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.trainings.answered import read_answers
from benchmarks.trainings.answers import write_answers, write_columns
from benchmarks.trainings.trained import Trained
from tasks.data.negatives import SIGNS
from tasks.evaluation.evaluate import evaluate, load_split
from tasks.evaluation.metrics import no_answer_auc
from tests.factories.finished_trainings import span_answers, write_stages, write_training


def test_file_gives_the_scores_of_any_threshold(tmp_path: Path) -> None:
    data = write_stages(tmp_path)
    trained = Trained(write_training(data, "0"))
    write_answers(tmp_path / "a.parquet", trained)
    answered = read_answers(tmp_path / "a.parquet")
    assert answered.training == trained.training
    split = load_split(data.dev.ingested)
    predictions = trained.predictions("dev")
    for threshold in (-math.inf, *predictions.margin[:3], 0.0, math.inf):
        expected = evaluate(split, predictions, float(threshold)).scores
        # The file has float32: a threshold that is a margin itself may fall on its other side.
        scores = answered.at(float(threshold) - 1e-4)
        means = [scores.em.mean(), scores.f1.mean(), scores.avna.mean()]
        assert means == pytest.approx([expected.em, expected.f1, expected.avna], rel=1e-5)
    area = no_answer_auc(predictions.margin, split.answerable)
    assert answered.auc == pytest.approx(area, abs=1e-4)
    limit = trained.training.variant.training.max_context_tokens
    lengths = split.context_lengths[split.context_of]
    assert answered.within.tolist() == (lengths <= limit).tolist()


def test_threshold_and_scores_are_weighted() -> None:
    """One question of five is unanswerable; its margin is that of two answered ones."""
    ids = {"a": -2.0, "b": -2.0, "c": 3.0, "d": 3.0, "u": 3.0}
    given = span_answers(ids, right={"a", "b", "c", "d"})
    few, many = given.threshold(0.1), given.threshold(0.9)
    assert few > 3 and -2 < many <= 3
    assert (given.weights(0.1) * given.at(few).f1).mean() == pytest.approx(90)
    assert (given.weights(0.9) * given.at(many).f1).mean() == pytest.approx(95)
    assert given.at(many).f1.tolist() == [100, 100, 0, 0, 100]


def test_answerable_questions_get_spans() -> None:
    given = span_answers({"a": 5.0, "b": 9.0}, right={"a"})
    assert given.threshold(0.5) == math.inf
    assert given.at(math.inf).f1.tolist() == [100, 0]
    assert given.weights(0.5).tolist() == [1, 1]
    with pytest.raises(SystemExit, match="all unanswerable"):
        span_answers({"u": 1.0}).threshold(0.5)


def test_negatives_are_left_out() -> None:
    made = [f"a{sign}" for sign in SIGNS.values()]
    given = span_answers({"a": -1, **dict.fromkeys(made, 9), "u": 1}, right={"a"})
    assert given.without_negatives().ids == ["a", "u"]
    assert given.of(["u", "a"]).margin.tolist() == [1, -1]


def test_names_the_columns_that_a_file_lacks(tmp_path: Path) -> None:
    write_columns(tmp_path / "a.parquet", {"id": ["a"], "margin": [1.0]}, {})
    with pytest.raises(SystemExit, match="lacks answerable, article, no_answer_em"):
        read_answers(tmp_path / "a.parquet")


def test_names_a_file_that_has_no_answers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("not Parquet")
    for name in ("a.parquet", "b.parquet"):
        with pytest.raises(SystemExit, match=f"{name} is not a file of a training's answers"):
            read_answers(tmp_path / name)
