"""Scores and gains of trainings on the questions of validation that they share."""

import math
from pathlib import Path

import pytest

from benchmarks.common.trained import Row, Trained
from benchmarks.common.validation import Validated, choose_threshold, table, validate
from tests.factories.finished_trainings import fact_stages, span_answers, write_manifest
from tests.factories.training_data import small


def test_shared_questions_are_those_of_people(tmp_path: Path) -> None:
    one, two = Trained(tmp_path / "1"), Trained(tmp_path / "2")
    given = {
        one: span_answers({"a": -1, "u": 1, "a⇄u": 9, "b": -3}, right={"a"}),
        two: span_answers({"u": 5, "c": 7, "a": 6, "u≠": 9}, right={"a"}),
    }
    validated = validate(given, 0.5)
    assert [own.split.ids for own in validated.values()] == [["a", "u"], ["a", "u"]]
    assert validated[two].answers[1].margin == pytest.approx([6, 5])
    assert [question.em for question in validated[one].questions] == [1, 1]
    assert validated[two].threshold <= 5 or validated[two].threshold > 6
    with pytest.raises(SystemExit, match="share no question"):
        validate({one: given[one], two: span_answers({"z": 1})}, 0.5)


def test_threshold_and_scores_are_weighted() -> None:
    """One question of five is unanswerable; its margin is that of two answered ones."""
    ids = {"a": -2.0, "b": -2.0, "c": 3.0, "d": 3.0, "u": 3.0}
    given = span_answers(ids, right={"a", "b", "c", "d"})
    few, many = (Validated(Trained(Path()), given, share) for share in (0.1, 0.9))
    assert few.threshold > 3 and -2 < many.threshold <= 3
    assert (few.weights * few.scores("f1")).mean() == pytest.approx(90)
    assert (many.weights * many.scores("f1")).mean() == pytest.approx(95)
    assert many.scores("f1").tolist() == [100, 100, 0, 0, 100]


def test_answerable_questions_get_spans() -> None:
    given = span_answers({"a": 5.0, "b": 9.0}, right={"a"})
    assert choose_threshold(given, 0.5) == math.inf
    own = Validated(Trained(Path()), given, 0.5)
    assert own.scores("f1").tolist() == [100, 0] and own.weights.tolist() == [1, 1]
    with pytest.raises(SystemExit, match="all unanswerable"):
        choose_threshold(span_answers({"u": 1.0}), 0.5)


def test_gains_are_over_the_first_row(tmp_path: Path) -> None:
    data = fact_stages(tmp_path)
    folders = [write_manifest(data, str(seed), small(seed=seed)) for seed in range(4)]
    trainings = list(map(Trained, folders))
    rows = [Row(trainings[:2], "constant"), Row(trainings[2:3], "linear"), Row(trainings[3:], "")]
    margins = {f"{number}": -1.0 for number in range(200)}
    rights = (set(margins), set(margins), {"0", "1"}, set(margins))
    given = {t: span_answers(margins, right) for t, right in zip(trainings, rights, strict=True)}
    # The gold answers differ here, so that the same span is right or wrong.
    first, second, third = table(rows, validate(given, 0.5))
    gain = "F1 gain, 95 % over questions and seeds"
    assert (first["seeds"], first["F1 of each seed"]) == ("0, 1", "100.00, 100.00")
    assert (first[gain], first["p (Holm)"]) == ("reference", "–")
    assert second[gain].startswith("-99.00 (-100.00 to ") and second[gain].endswith(" *")
    assert second["p (Holm)"] == "0.002", "two comparisons of p = 0.001"
    assert third[gain] == "+0.00 (+0.00 to +0.00)" and third["p (Holm)"] == "1.000"
