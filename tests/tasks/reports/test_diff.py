"""Two runs' answers side by side: which run is right, and how both answers are marked."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from infra.errors import UserError
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import evaluate, load_split, write_predictions
from tasks.reports.diff import Comparison, Scored, write_differences
from tests.factories.html import assert_stands_alone, shown
from tests.factories.splits import write_split

GOLD = [(0, 1), (-1, -1), (1, 2), (1, 1)]
ATTACK = "<script>alert(1)</script>"


@pytest.fixture
def split(tmp_path: Path) -> Path:
    folder = tmp_path / "split"
    folder.mkdir()
    return write_split(folder)


def scored(split: Path, name: str, spans: list[tuple[int, int]]) -> Scored:
    """A run that predicted these token spans, in order of rising confidence."""
    folder = split.parent / name.replace("/", "-")
    folder.mkdir()
    start, end = np.array(spans).T
    scores = np.linspace(-2, -0.1, len(spans))
    answers = Predictions(start, end, scores, scores - 1.0)
    loaded = load_split(split)
    write_predictions(folder / "predictions.parquet", loaded, evaluate(loaded, answers))
    return Scored(name, folder, split)


def compared(first: Scored, second: Scored) -> tuple[Comparison, str]:
    file = first.trained / "differences.html"
    return write_differences(file, first, second), file.read_text(encoding="utf-8")


def test_counts_four_outcomes_and_marks_differences(split: Path) -> None:
    one = scored(split, "one", [(0, 1), (0, 0), (0, 0), (1, 1)])
    other = scored(split, "other", [(1, 1), (-1, -1), (2, 2), (0, 0)])
    found, page = compared(one, other)
    assert [(o.name, o.questions, o.different) for o in found.outcomes] == [
        ("Only other is right", 1, 1),
        ("Only one is right", 1, 1),
        ("Both are wrong", 1, 1),
        ("Both are right", 1, 1),  # both "Ada Lovelace" and "Lovelace" are annotated
    ]
    # By question: both right; no answer replaces a span; "3" replaces "π"; "a" replaces "𝔘x".
    assert found.gain.mean == pytest.approx(100 * (0 + 1 + (2 / 3 - 1 / 2) - 1) / 4)
    assert_stands_alone(page)
    text = shown(page)
    assert "the same 4 questions" in text
    assert "Only other is right: 1 of 1" in text
    assert "one ✗ Ada F1 0, confidence" in text
    assert "other ✓ no answer F1 100" in text
    assert '<mark class="at gold first">Ada </mark>' in page
    assert '<mark class="at gold first second">Lovelace</mark>' in page


def test_agreeing_runs_show_no_examples(split: Path) -> None:
    found, page = compared(scored(split, "one", GOLD), scored(split, "other", GOLD))
    assert [(o.questions, o.different) for o in found.outcomes] == [(0, 0)] * 3 + [(4, 0)]
    assert "<article" not in page
    assert (found.gain.mean, found.gain.low, found.gain.high) == (0, 0, 0)


def test_rejects_runs_on_different_questions(split: Path, tmp_path: Path) -> None:
    (tmp_path / "fewer").mkdir()
    fewer = write_split(tmp_path / "fewer", answered_only=True)
    one, other = scored(split, "one", GOLD), scored(fewer, "other", [(0, 0)] * 3)
    with pytest.raises(UserError, match=r"one and other were .* different questions \(4 and 3"):
        compared(one, other)
    assert not (one.trained / "differences.html").exists()


def test_accepts_same_questions_in_another_folder(split: Path, tmp_path: Path) -> None:
    one = scored(split, "one", GOLD)
    shutil.copytree(split, tmp_path / "copy")
    other = scored(tmp_path / "copy", "other", [(0, 0)] * 4)
    assert compared(one, other)[0].outcomes[1].questions == 4


def test_escapes_hostile_names(split: Path) -> None:
    one, other = scored(split, ATTACK, GOLD), scored(split, "other", [(0, 0)] * 4)
    page = compared(one, other)[1]
    assert "<script" not in page
    assert len(re.findall(r"<article", page)) == 4
    assert_stands_alone(page)
