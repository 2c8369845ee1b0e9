"""The benchmark of negatives: the word-overlap classifier, and one small training per kind."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import negatives
from benchmarks.common.overlap import classifier_auc, overlap_features
from benchmarks.trainings.trained import Trained
from models.predict import predict
from tasks.data.negatives import NegativeShares
from tasks.data.text_spans import Text
from tasks.evaluation.evaluate import evaluate, load_split
from tasks.text.encoded import load_encoded, load_types
from tasks.training.initialization import new_model
from tests.factories.cli import QUICK, run_benchmark
from tests.factories.finished_trainings import (
    fact_stages,
    span_answers,
    write_manifest,
    write_stages,
    write_training,
)
from tests.factories.training_data import small

PLACES = ("Lima", "Quito", "Cusco", "Tarma")


def town(number: int) -> dict[str, Any]:
    """An article of four paragraphs about a town's buildings, with a question about each."""
    paragraphs = []
    for i, thing in enumerate(("mill", "bridge", "tower", "harbour")):
        year, answer = 1800 + 10 * number + i, f"Mason {number}-{i}"
        start = f"{answer} built the {thing} in {year}."
        paragraphs.append(
            {
                "context": f"{start} A quake came in {year + 150}. Crowds left in {PLACES[i]}.",
                "qas": [
                    {
                        "id": f"{number}-{i}",
                        "question": f"Who built the {thing} in {year}?",
                        "answers": [{"text": answer, "answer_start": 0}],
                    }
                ],
            }
        )
    return {"title": f"town {number}", "paragraphs": paragraphs}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a dataset named "own"."""
    (tmp_path / "own").mkdir()
    for name, numbers in (("train", range(30)), ("dev", range(30, 60))):
        data = {"data": [town(number) for number in numbers]}
        (tmp_path / "own" / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    return tmp_path


def test_classifier_finds_what_features_tell() -> None:
    random = np.random.default_rng(0)
    answerable, test = random.random((2, 4000)) < 0.5
    noise = random.normal(size=(4000, 3))
    assert classifier_auc(noise, answerable, test) == pytest.approx(0.5, abs=0.05)
    separated = noise + 3.0 * answerable[:, None]
    area = classifier_auc(separated, answerable, test)
    assert area is not None and area > 0.99
    assert classifier_auc(noise, answerable, answerable) is None


def test_features_count_shared_words() -> None:
    question, context = Text("Who built mills in Lima?"), Text("Mills are old. He built in Lima.")
    words, pairs, content, best, marked, missing, length = overlap_features(question, context)
    measured = [words, pairs, content, best, marked, missing]
    assert measured == pytest.approx([4 / 6, 1 / 5, 1, 2 / 3, 1, 0])
    assert length == pytest.approx(np.log(9 + 1))


def test_words_tell_other_paragraphs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "own" / "train.json"
    monkeypatch.setattr(sys, "argv", ["negatives", str(folder), "--overlap-only", str(file)])
    everything = NegativeShares(paragraph=1, nearest=1, swap=1)
    monkeypatch.setattr(negatives, "SAMPLED", everything)
    negatives.main()
    result = json.loads((folder / "overlap.json").read_text(encoding="utf-8"))
    areas = {row["kind"]: float(row["AUC by word overlap"]) for row in result["rows"]}
    assert areas.keys() == {"paragraph", "nearest", "swap"}
    assert areas["paragraph"] > 0.9 and areas["nearest"] > 0.9
    assert result["data"]["questions"] == 120
    assert "| swap | 60 | 60 |" in (folder / "overlap.md").read_text(encoding="utf-8")


def test_too_few_questions_have_no_area(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "lower.json"
    context = "the mill is old and grinds wheat."
    answers = [{"text": "old", "answer_start": context.index("old")}]
    qas = [{"id": "a", "question": "how old is the mill?", "answers": answers}]
    paragraphs = [{"context": context, "qas": qas}, {"context": "a bridge is wide.", "qas": []}]
    file.write_text(json.dumps({"data": [{"title": "mill", "paragraphs": paragraphs}]}))
    monkeypatch.setattr(sys, "argv", ["negatives", str(folder), "--overlap-only", str(file)])
    monkeypatch.setattr(negatives, "SAMPLED", NegativeShares(paragraph=1, nearest=1, swap=1))
    negatives.main()
    rows = json.loads((folder / "overlap.json").read_text(encoding="utf-8"))["rows"]
    assert {row["AUC by word overlap"] for row in rows} == {"–"}
    assert "swap" not in {row["kind"] for row in rows if row["questions"] != "0"}


def test_measures_all_negatives_of_dev_at_a_threshold(tmp_path: Path) -> None:
    data = write_stages(tmp_path)
    trained = Trained(write_training(data, "0"))
    dev = load_split(data.dev.ingested)
    answers, _ = predict(
        new_model(small(), data)[0].eval(),
        load_encoded(data.dev.encoded),
        load_types(data.vocabulary),
        15,
    )
    threshold = float(np.median(answers.margin))
    measured = negatives.measure("none", trained, threshold, tmp_path)
    sizes = {name: len(scores) for name, scores in measured.scores.items()}
    assert sizes["AvNA answerable"] == sizes["AvNA written by people"] == 12
    assert sizes["AvNA paragraph"] == sizes["AvNA nearest"] == 12, "all of them, not a sample"
    scores = evaluate(dev, answers, threshold).questions
    f1 = [100 * s.f1 for s, answer in zip(scores, dev.answerable, strict=True) if answer]
    assert measured.scores["F1 answerable"].tolist() == pytest.approx(f1)
    avna = [100 * s.avna for s, answer in zip(scores, dev.answerable, strict=True) if not answer]
    assert measured.scores["AvNA written by people"].tolist() == avna
    assert 0 < np.mean(avna) < 100
    table = pq.read_table(tmp_path / f"dev-{trained.training.file_name}")
    assert table["id"].to_pylist()[: len(dev)] == dev.ids
    np.testing.assert_allclose(
        np.log(table["no_answer_probability"][: len(dev)]), answers.no_answer_score, rtol=1e-4
    )
    row = negatives.table_row(replace(measured, cell="swap"), measured)
    assert row["AvNA paragraph: gain, 95 %"] == "+0.00 (+0.00 to +0.00)"
    assert row["F1 answerable (12)"].startswith(f"{np.mean(f1):.2f} (")


def test_threshold_comes_from_questions_of_people(tmp_path: Path) -> None:
    """Without unanswerable ones, it is the training's own, or every answer is a span."""
    trained = Trained(write_manifest(fact_stages(tmp_path), "0", small()))
    (trained.folder / "model").mkdir()
    config = trained.folder / "model" / "config.json"
    config.write_text(json.dumps({"allow_no_answer": False}), encoding="utf-8")
    answerable = {"a": -1.0, "b": 3.0, "a≠": 2.0}
    assert negatives.threshold_of(trained, span_answers(answerable), 0.5) == math.inf
    trained.facts["threshold"] = 1.5
    assert negatives.threshold_of(trained, span_answers(answerable), 0.5) == 1.5
    both = span_answers({**answerable, "u": 8.0}, right={"a", "b"})
    assert negatives.threshold_of(trained, both, 0.5) == 5.5, "between people's questions"


@pytest.mark.heavy
@pytest.mark.full
@pytest.mark.timeout(1800)
def test_trains_once_with_each_kind(folder: Path) -> None:
    """A rerun trains nothing again; two variants have a row each per kind."""
    flags = ("--data.dataset", str(folder / "own"), "--variants", "baseline,char", *QUICK)
    outputs = []
    for _ in range(2):
        run_benchmark(folder / "root", "negatives", folder, *flags)
        outputs.append(json.loads((folder / "negatives.json").read_text(encoding="utf-8")))
    assert outputs[0] == outputs[1]
    assert [row["variant"][:4] for row in outputs[0]["rows"]] == ["base", "char"] * 4
    rows = {row["negatives"]: row for row in outputs[0]["rows"]}
    assert rows.keys() == set(negatives.CELLS)
    assert rows["none"]["added to train"] == "0" != rows["swap"]["added to train"]
    measured = {name.partition(" (")[0] for name in rows["none"]}
    assert {"AvNA answerable", "AvNA paragraph", "AvNA nearest", "AvNA swap"} <= measured
    assert rows["none"]["AvNA paragraph: gain, 95 %"] == "reference"
    assert len(list(folder.glob("dev-*.parquet"))) == 8
    gains = json.loads((folder / "validation-char.json").read_text(encoding="utf-8"))["rows"]
    assert len(gains) == 4 and len({row["questions"] for row in gains}) == 1
    assert len(list((folder / "root" / "stages" / "train").glob("[!.]*/model"))) == 8
