"""Two runs' answers side by side: which run is correct, and how both answers are marked."""

import re
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.evaluation.evaluate import load_split
from tasks.reports.diff import Comparison, ScoredRun, write_differences
from tests.factories.html import assert_self_contained, visible_text
from tests.factories.splits import predict_spans, write_split

GOLD = [(0, 1), (-1, -1), (1, 2), (1, 1)]
ATTACK = "<script>alert(1)</script>"


@pytest.fixture
def split(tmp_path: Path) -> Path:
    folder = tmp_path / "split"
    folder.mkdir()
    return write_split(folder)


def scored_run(split: Path, name: str, spans: list[tuple[int, int]]) -> ScoredRun:
    """A run that predicted these token spans, in order of rising confidence."""
    folder = split.parent / name.replace("/", "-")
    folder.mkdir()
    predict_spans(folder, load_split(split), spans)
    return ScoredRun(name, folder, split)


def compare_runs(first: ScoredRun, second: ScoredRun) -> tuple[Comparison, str]:
    file = first.trained / "differences.html"
    return write_differences(file, first, second), file.read_text(encoding="utf-8")


def test_counts_four_groups_and_marks_differences(split: Path) -> None:
    one = scored_run(split, "one", [(0, 1), (0, 0), (0, 0), (1, 1)])
    other = scored_run(split, "other", [(1, 1), (-1, -1), (2, 2), (0, 0)])
    comparison, page = compare_runs(one, other)
    assert [(change.name, change.questions, change.different) for change in comparison.changes] == [
        ("Only other is correct", 1, 1),
        ("Only one is correct", 1, 1),
        ("Both are wrong", 1, 1),
        ("Both are correct", 1, 1),  # both "Ada Lovelace" and "Lovelace" are annotated
    ]
    # By question: both correct; no answer replaces a span; "3" replaces "π"; "a" replaces "𝔘x".
    assert comparison.gain.mean == pytest.approx(100 * (0 + 1 + (2 / 3 - 1 / 2) - 1) / 4)
    assert_self_contained(page)
    text = visible_text(page)
    assert "· 4 questions ·" in text
    assert "Only other is correct: 1 of 1 questions" in text
    assert "one ✗ Ada F1 0, confidence" in text
    assert "other ✓ no answer F1 100" in text
    assert '<mark class="at gold first">Ada </mark>' in page
    assert '<mark class="at gold first second">Lovelace</mark>' in page


def test_rejects_runs_on_different_questions(split: Path, tmp_path: Path) -> None:
    (tmp_path / "fewer").mkdir()
    fewer = write_split(tmp_path / "fewer", answered_only=True)
    one, other = scored_run(split, "one", GOLD), scored_run(fewer, "other", [(0, 0)] * 3)
    with pytest.raises(UserError, match=r"one and other were .* different questions \(4 and 3"):
        compare_runs(one, other)
    assert not (one.trained / "differences.html").exists()


def test_escapes_hostile_names(split: Path) -> None:
    one, other = scored_run(split, ATTACK, GOLD), scored_run(split, "other", [(0, 0)] * 4)
    page = compare_runs(one, other)[1]
    assert "<script" not in page
    assert len(re.findall(r"<article", page)) == 4
    assert_self_contained(page)
