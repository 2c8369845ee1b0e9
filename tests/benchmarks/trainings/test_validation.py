"""Scores and gains of trainings on the questions of validation that they share."""

from pathlib import Path

import pytest

from benchmarks.trainings.answered import Answered
from benchmarks.trainings.rows import Row
from benchmarks.trainings.trained import Trained
from benchmarks.trainings.validation import table, validate
from tests.factories.finished_trainings import fact_stages, span_answers, write_manifest
from tests.factories.training_data import small


def test_shared_questions_are_those_of_people() -> None:
    given = {
        "one": span_answers({"a": -1, "u": 1, "a⇄u": 9, "b": -3}, right={"a"}),
        "two": span_answers({"u": 5, "c": 7, "a": 6, "u≠": 9}, right={"a"}),
    }
    one, two = validate(given, 0.5).values()
    assert one.answered.ids == two.answered.ids == ["a", "u"]
    assert two.answered.margin == pytest.approx([6, 5])
    assert one.scores.em.tolist() == [100, 100]
    assert two.threshold <= 5 or two.threshold > 6
    with pytest.raises(SystemExit, match="share no question"):
        validate({"one": given["one"], "two": span_answers({"z": 1})}, 0.5)


def test_gains_are_over_the_first_row(tmp_path: Path) -> None:
    data = fact_stages(tmp_path)
    folders = [write_manifest(data, str(seed), small(seed=seed)) for seed in range(4)]
    trainings = [Trained(folder).training for folder in folders]
    rows = [Row(trainings[:2], "constant"), Row(trainings[2:3], "linear"), Row(trainings[3:], "")]
    margins = {f"{number}": -1.0 for number in range(200)}
    rights = (set(margins), set(margins), {"0", "1"}, set(margins))
    given: dict[str, Answered] = {
        training.file_name: span_answers(margins, right, {"kept": {"epoch": 1}})
        for training, right in zip(trainings, rights, strict=True)
    }
    first, second, third = table(rows, validate(given, 0.5))
    gain = "F1 gain, 95 %"
    assert (first["seeds"], first["F1 of each seed"]) == ("0, 1", "100.00, 100.00")
    assert (first[gain], first["p (Holm)"]) == ("reference", "–")
    assert second[gain].startswith("-99.00 (-100.0") and second[gain].endswith(" *")
    assert second["p (Holm)"] == "0.002", "two comparisons of p = 0.001"
    assert third[gain] == "+0.00 (+0.00 to +0.00)" and third["p (Holm)"] == "1.000"
