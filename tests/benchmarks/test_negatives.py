"""The benchmark of negatives: the word-overlap classifier, and one small training per kind."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import negatives
from benchmarks.common.overlap import classifier_auc, overlap_features
from tasks.data.negatives import NegativeShares
from tasks.data.text_spans import Text
from tests.factories.cli import QUICK, run_benchmark

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
    assert classifier_auc(separated, answerable, test) > 0.99


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
    assert len(list((folder / "root" / "stages" / "train").glob("[!.]*/model"))) == 8
