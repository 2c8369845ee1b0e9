"""The comparison on chosen answers: means, deviations, and gains with their intervals."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.reports.comparison import Cell, CellTrainings, Failure, compare
from tests.factories.html import Page

QUESTIONS = 200


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def training_folder(
    folder: Path,
    f1: np.ndarray,
    /,
    outside: float | None = None,
    questions_per_context: int = 1,
    **at_threshold: float,
) -> Path:
    """Write the inputs of `compare` for a training with these F1 (0 to 1), with an error report.

    The error report gives `outside` as the EM and F1 of questions with words outside GloVe.
    """
    (folder / "errors").mkdir(parents=True)
    outside_scores = {}
    if outside is not None:
        outside_scores = {f"dev/{name}_outside_glove": outside for name in ("em", "f1")}
        outside_scores["dev/questions_outside_glove"] = 1234.0
    report_facts = {"scores": outside_scores}
    (folder / "errors" / "manifest.json").write_text(json.dumps({"facts": report_facts}))
    mean = 100 * float(f1.mean())
    scores = {"dev/em": mean, "dev/f1": mean, "dev/nll": 1.5, "dev/avna": 50.0}
    scores |= {f"dev/{name}_at_threshold": value for name, value in at_threshold.items()}
    facts = {
        "questions": len(f1),
        "scores": {**scores, "examples_per_second": 100.0, "seconds": 90.0},
    }
    (folder / "manifest.json").write_text(json.dumps({"facts": facts}))
    contexts = np.arange(len(f1)) // questions_per_context
    columns = {"f1": pa.array(f1, pa.float32()), "group": contexts}
    pq.write_table(pa.table(columns), folder / "predictions.parquet")
    return folder


def comparison_facts(
    out: Path, cells: list[Cell], folders: list[list[Path]], seeds: list[int]
) -> Any:
    """Compare the folders; returns the facts of the comparison."""
    trainings = [
        CellTrainings(cell, trained, [folder / "errors" for folder in trained])
        for cell, trained in zip(cells, folders, strict=True)
    ]
    return compare(out, trainings, seeds)


def f1_with_share(share: float) -> np.ndarray:
    return (np.arange(QUESTIONS) < share * QUESTIONS).astype(np.float32)


def test_means_deviations_and_gains_per_dataset(tmp_path: Path, out: Path) -> None:
    shares = {
        ("one", "base"): (0.4, 0.5),
        ("one", "much better"): (0.95, 0.95),
        ("one", "the same"): (0.5, 0.4),
        ("two", "base"): (0.2, 0.2),
    }
    cells = [Cell(dataset, "vectors", variant) for dataset, variant in shares]
    folders = [
        [
            training_folder(tmp_path / f"{i}-{seed}", f1_with_share(share))
            for seed, share in enumerate(pair)
        ]
        for i, pair in enumerate(shares.values())
    ]
    facts = comparison_facts(out, cells, folders, [0, 1])
    rows = {(row["dataset"], row["variant"]): row for row in facts["rows"]}
    assert rows["one", "base"]["F1"] == "45.00 ± 7.07"
    assert rows["one", "base"]["F1 gain, 95 %"] == "reference"
    better = rows["one", "much better"]["F1 gain, 95 %"]
    assert better.startswith("+50.00") and better.endswith("*")
    same = rows["one", "the same"]["F1 gain, 95 %"]
    assert same.startswith("+0.00 (-") and not same.endswith("*")
    assert rows["two", "base"]["F1 gain, 95 %"] == "reference"
    assert rows["two", "base"]["F1"] == "20.00 ± 0.00"
    assert rows["two", "base"]["minutes"] == "1.5"
    assert facts["markdown"].count("\n") == 2 + len(cells)


def test_luck_of_a_seed_is_not_significant(tmp_path: Path, out: Path) -> None:
    """The interval over the questions alone would exclude zero."""
    shares = {"base": (0.4, 0.5), "lucky": (0.4, 0.6)}
    cells = [Cell("d", "v", variant) for variant in shares]
    folders = [
        [training_folder(tmp_path / f"{name}-{share}", f1_with_share(share)) for share in pair]
        for name, pair in shares.items()
    ]
    both = comparison_facts(out, cells, folders, [0, 1])["rows"][1]
    assert both["F1 gain, 95 %"].startswith("+5.00 (-") and "*" not in both["F1 gain, 95 %"]
    assert "One seed says nothing" not in (out / "comparison.html").read_text(encoding="utf-8")
    unequal = comparison_facts(out, cells, [folders[0], folders[1][1:]], [0, 1])["rows"][1]
    assert (unequal["seeds"], unequal["F1 gain, 95 %"][:6]) == ("1", "+15.00")
    alone = comparison_facts(out, cells, [folders[0][1:], folders[1][1:]], [1])["rows"][1]
    assert alone["F1 gain, 95 %"].startswith("+10.00 (+") and alone["F1 gain, 95 %"].endswith("*")
    assert "One seed says nothing" in (out / "comparison.html").read_text(encoding="utf-8")


def test_gain_on_one_long_context_is_not_significant(tmp_path: Path, out: Path) -> None:
    cells = [Cell("d", "v", name) for name in ("base", "better")]
    for size, significant in ((1, True), (QUESTIONS // 4, False)):
        folders = [
            [training_folder(tmp_path / f"{share}-{size}", f1_with_share(share), None, size)]
            for share in (0.25, 0.5)
        ]
        row = comparison_facts(out, cells, folders, [0])["rows"][1]
        assert row["F1 gain, 95 %"].startswith("+25.00")
        assert row["F1 gain, 95 %"].endswith("*") is significant


def test_stars_are_corrected_over_a_dataset(tmp_path: Path, out: Path) -> None:
    """By itself, a gain on 4 of 200 questions has a star; two of them have none."""
    shares = [("two", 0.4), ("two", 0.42), ("two", 0.42), ("one", 0.4), ("one", 0.42)]
    cells = [Cell(dataset, "v", str(number)) for number, (dataset, _) in enumerate(shares)]
    folders = [
        [training_folder(tmp_path / str(number), f1_with_share(share))]
        for number, (_, share) in enumerate(shares)
    ]
    rows = comparison_facts(out, cells, folders, [0])["rows"]
    assert [row["F1 gain, 95 %"].endswith("*") for row in rows] == [False] * 4 + [True]
    gains = [row["gain"] for row in json.loads((out / "comparison.json").read_text())["rows"]]
    assert all(gains[number]["low"] > 0 for number in (1, 2, 4))
    assert (out / "comparison.html").read_text(encoding="utf-8").count("</small> ★") == 1


def test_page_is_self_contained_and_shows_every_seed(tmp_path: Path, out: Path) -> None:
    folders = [[training_folder(tmp_path / str(i), f1_with_share(i / 4)) for i in range(3)]]
    comparison_facts(out, [Cell("<b>data</b>", "v", "base")], folders, [0, 1, 2])
    text = (out / "comparison.html").read_text(encoding="utf-8")
    Page(text)
    assert re.findall("<title>(base · v · <b>data</b>: [^<]*)", unescape(text)) == [
        f"base · v · <b>data</b>: {f1}" for f1 in ("0.00", "25.00", "50.00")
    ]
    assert "<b>" not in text and "src=" not in text and "{{" not in text
    document = json.loads((out / "comparison.json").read_text())
    assert document["rows"][0]["f1"]["values"] == [0.0, 25.0, 50.0]


def test_threshold_columns_appear_if_any_run_has_them(tmp_path: Path, out: Path) -> None:
    cells = [Cell("d", "v", "plain"), Cell("d", "v", "chosen")]
    plain = [training_folder(tmp_path / f"plain-{i}", f1_with_share(0.5)) for i in range(2)]
    chosen = [
        training_folder(
            tmp_path / f"chosen-{i}", f1_with_share(0.5), em=60 + i, f1=70 + i, avna=80 + i
        )
        for i in range(2)
    ]
    rows = comparison_facts(out, cells, [plain, chosen], [0, 1])["rows"]
    assert [row["F1 at threshold"] for row in rows] == ["–", "70.50 ± 0.71"]
    assert list(rows[0]) == list(rows[1])
    text = (out / "comparison.html").read_text(encoding="utf-8")
    assert '<th scope="col">AvNA at threshold</th>' in text and "80.50 <small>± 0.71" in text
    assert "at threshold" not in str(comparison_facts(out, cells[:1], [plain], [0, 1]))
    assert "at threshold" not in (out / "comparison.html").read_text(encoding="utf-8")


def test_gains_at_thresholds(tmp_path: Path, out: Path) -> None:
    """Half of the questions are unanswerable. By argmax, both variants answer all of them; at its
    threshold, the second one recognises 60 % of the unanswerable ones."""
    cells = [Cell("d", "v", name) for name in ("base", "ranks", "without")]
    folders = [training_folder(tmp_path / cell.variant, f1_with_share(0.5)) for cell in cells]
    for folder, recognised in zip(folders[:2], (0, 60), strict=True):
        margin = np.where(np.arange(QUESTIONS) >= QUESTIONS - recognised, -1.0, -3.0)
        no_answer = 1 - f1_with_share(0.5)
        columns = {
            "group": np.arange(QUESTIONS),
            "f1": f1_with_share(0.5),
            "best_f1": f1_with_share(0.5),
            "no_answer_em": no_answer,
            "best_score": np.full(QUESTIONS, -0.5),
            "no_answer_score": margin - 0.5,
        }
        pq.write_table(pa.table(columns), folder / "predictions.parquet")
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["facts"]["threshold"] = -2.0
        (folder / "manifest.json").write_text(json.dumps(manifest))
    rows = comparison_facts(out, cells, [[folder] for folder in folders], [0])["rows"]
    assert rows[1]["F1 gain, 95 %"] == "+0.00 (+0.00 to +0.00)"
    gains = [row["F1 gain at threshold, 95 %"] for row in rows]
    assert gains[0] == "reference" and gains[2] == "–"
    assert gains[1].startswith("+30.00 (+") and gains[1].endswith(" *")
    page = (out / "comparison.html").read_text(encoding="utf-8")
    assert ">F1 gain at threshold, 95 %</th>" in page and page.count("+30.00 <small>") == 1


def test_columns_show_scores_outside_glove(tmp_path: Path, out: Path) -> None:
    folders = [
        [training_folder(tmp_path / str(i), f1_with_share(0.5), outside=20.0 + i) for i in range(2)]
    ]
    (row,) = comparison_facts(out, [Cell("d", "v", "b")], folders, [0, 1])["rows"]
    assert row["F1 outside GloVe"] == row["EM outside GloVe"] == "20.50 ± 0.71"
    assert row["questions outside GloVe"] == "1,234"
    page = (out / "comparison.html").read_text(encoding="utf-8")
    assert ">F1 outside GloVe</th>" in page and ">questions outside GloVe</th>" in page
    assert "<td>1,234</td>" in page


def test_incomplete_comparison_shows_what_failed(out: Path, tmp_path: Path) -> None:
    cells = [Cell("d", "v", variant) for variant in ("a", "b", "c")]
    finished = [
        training_folder(tmp_path / name, np.full(QUESTIONS, f1))
        for name, f1 in (("a0", 0.5), ("a1", 0.7), ("b0", 0.6))
    ]
    trainings = [
        CellTrainings(cells[0], finished[:2], [folder / "errors" for folder in finished[:2]]),
        CellTrainings(cells[1], finished[2:], [finished[2] / "errors"]),
        CellTrainings(cells[2], [], []),
    ]
    failed = [Failure(cells[2], 0, "b diverged: the loss is <nan>.")]
    facts = compare(out, trainings, [0, 1], failed)
    assert [(row["variant"], row["seeds"]) for row in facts["rows"]] == [("a", "2"), ("b", "1")]
    page = (out / "comparison.html").read_text(encoding="utf-8")
    Page(page)
    text = " ".join(unescape(re.sub(r"<[^>]+>", "", page)).split())
    assert "c · v · d · seed 0: failed. b diverged: the loss is <nan>." in text
    assert "v · d · 1 of 2 seeds" in text and "v · d · 2 of 2 seeds" not in text
    without = compare(out, [CellTrainings(cells[2], [], []), *trainings[:2]], [0, 1], failed)
    assert {row["F1 gain, 95 %"] for row in without["rows"]} == {"–"}, "c is the reference"
    page = (out / "comparison.html").read_text(encoding="utf-8")
    assert "<small>reference</small>" not in page
    complete = comparison_facts(out, cells[:1], [finished[:2]], [0, 1])
    assert len(complete["rows"]) == 1
    assert "without results" not in (out / "comparison.html").read_text(encoding="utf-8")
