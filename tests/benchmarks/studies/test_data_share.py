"""The benchmark of F1 over the share of training data."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.studies.data_share import (
    PERCENTS,
    Point,
    answers_to,
    extrapolate,
    trained_part,
    training_flags,
    write_share,
)
from benchmarks.trainings.answers import write_columns
from infra.settings import settings
from tests.factories.cli import QUICK, run_benchmark, write_dataset
from tests.factories.finished_trainings import span_answers


def point(questions: int, f1: float) -> Point:
    """A training whose spans have this F1 at every dev question."""
    spans = span_answers(dict.fromkeys(map(str, range(40)), 0.0))
    answered = replace(spans, span_f1=np.full(40, f1 / 100), article=np.arange(40) // 4)
    return Point(100, 1, 2 * questions, questions, answered, math.inf)


def test_extrapolates_a_power_law() -> None:
    points = [point(n, 100 - 200 * n**-0.2) for n in (1000, 2000, 4000)]
    result = extrapolate(points, 8000)
    assert result["exponent"] == pytest.approx(0.2)
    assert result["f1"] == pytest.approx(100 - 200 * 8000**-0.2)
    assert result["f1_95_percent"] == pytest.approx([result["f1"]] * 2)
    checked = result["largest_share"]
    assert checked["f1_predicted_by_smaller_shares"] == pytest.approx(checked["f1"])


def test_row_has_the_scores_at_the_threshold() -> None:
    answered = span_answers({"a": -2.0, "b": 1.0, "u1": -1.0, "u2": 3.0}, right={"a", "b"})
    row = Point(100, 4, 8, 8, answered, threshold=2.0).row
    assert (row["F1"], row["AvNA"], row["AUC"]) == ("75.00", "75.00", "0.750")
    assert row["F1 of spans, answerable"] == "100.00"
    assert "AUC" not in point(4000, 50).row


def test_questions_of_a_file_are_scaled() -> None:
    assert trained_part(point(4000, 50), 130_319) == 65_160


def test_smaller_share_is_part_of_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Articles with equal titles are drawn one by one."""
    monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "root"))
    train = write_dataset(tmp_path / "own", train=8) / "train.json"
    content = json.loads(train.read_text(encoding="utf-8"))
    for article in content["data"][:6]:
        article["title"] = "unknown_title"
    train.write_text(json.dumps(content), encoding="utf-8")
    drawn = []
    for percent in PERCENTS:
        share = write_share(train, percent)
        assert share.file.is_relative_to(settings().root)
        data = json.loads(share.file.read_text(encoding="utf-8"))["data"]
        assert len(data) == share.articles == 8 * percent / 100
        questions = [qa["id"] for article in data for p in article["paragraphs"] for qa in p["qas"]]
        assert len(questions) == share.questions
        drawn.append(set(questions))
    assert drawn[0] < drawn[1] < drawn[2] < drawn[3]


def test_contexts_of_dev_are_left_out_by_default() -> None:
    assert training_flags("char", ["--training.epochs", "6"])[2:4] == [
        "--data.overlap",
        "leave out",
    ]
    for given in (["--data.overlap", "refuse"], ["--data.overlap=refuse"]):
        assert training_flags("char", given) == ["--variants", "char", *given]


def test_answers_are_of_equal_files_and_flags(tmp_path: Path) -> None:
    file, asked = tmp_path / "answers.parquet", {"train": "1f", "flags": ["--training.epochs", "6"]}
    assert not answers_to(file, asked)
    write_columns(file, {"id": ["a"]}, {"asked": asked})
    assert answers_to(file, asked)
    assert not answers_to(file, {**asked, "flags": ["--training.epochs", "7"]})
    assert not answers_to(file, {**asked, "train": "2e"})


@pytest.mark.heavy
@pytest.mark.full
@pytest.mark.timeout(1800)
def test_trains_on_each_share(tmp_path: Path) -> None:
    folder, out = write_dataset(tmp_path / "own", train=8), tmp_path / "out"
    files = (folder / "train.json", folder / "dev.json")
    content = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    content[0]["data"][0]["paragraphs"].append(
        {"context": content[1]["data"][0]["paragraphs"][0]["context"], "qas": []}
    )
    files[0].write_text(json.dumps(content[0]), encoding="utf-8")
    flags = ("--data.validation-share", "0", "--variant", "baseline", *QUICK)
    study = ("studies.data_share", out, *files, "--full", "5000", *flags)
    run_benchmark(tmp_path / "root", *study)
    result = json.loads((out / "data-share.json").read_text(encoding="utf-8"))
    assert [row["articles"] for row in result["rows"]] == [
        "25 % (2)",
        "50 % (4)",
        "75 % (6)",
        "100 % (8)",
    ]
    low, high = result["extrapolated"]["f1_95_percent"]
    assert low <= result["extrapolated"]["f1"] <= high
    dev = json.loads(files[1].read_text(encoding="utf-8"))["data"]
    ids = {qa["id"] for article in dev for p in article["paragraphs"] for qa in p["qas"]}
    for percent in PERCENTS:
        answers = pq.read_table(out / f"{percent}-percent.parquet")
        assert set(answers["id"].to_pylist()) == ids
    assert (out / "data-share.png").stat().st_size > 1000

    run_benchmark(tmp_path / "elsewhere", *study)
    assert not (tmp_path / "elsewhere" / "stages").exists(), "answers that are there are read"
    assert json.loads((out / "data-share.json").read_text(encoding="utf-8")) == result
