"""Drawing unanswerable questions that a model answers, and counting their categories."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fooled import questions
from infra.settings import CHECKOUT
from tests.factories.answer_files import write_answers


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Answers to 20 unanswerable questions, of which the model answers 12, and to two others."""

    def question(number: int, **fields: Any) -> dict[str, Any]:
        return {"id": f"q{number}", "question": f"Who is {number}?", "answers": [], **fields}

    plausible = [{"text": text, "answer_start": 0} for text in ("Ann", "Ann", "Bob")]
    qas = [question(n, is_impossible=True, plausible_answers=plausible) for n in range(20)]
    qas += [question(n, is_impossible=False) for n in (20, 21)]
    dev = tmp_path / "dev.json"
    data = [{"title": "t", "paragraphs": [{"context": "Ann met Bob.", "qas": qas}]}]
    dev.write_text(json.dumps({"data": data}), encoding="utf-8")
    answers = tmp_path / "answers.parquet"
    # Margins of 0 to 21; with half of the questions unanswerable, validation chooses 12, else 15.
    write_answers(answers, [float(n) for n in range(22)], [n > 19 for n in range(22)])
    margins = {11.0: True, 12.0: False, 14.0: True, 15.0: False}
    write_answers(answers.with_name("validation-answers.parquet"), [*margins], [*margins.values()])
    return answers, dev


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["questions", *map(str, arguments)])
    questions.main()


def test_draws_unanswerable_questions_with_answers(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, "draw", *files, tmp_path / "read.txt", "--count", 5)
    first = (tmp_path / "read.txt").read_text(encoding="utf-8")
    assert first.startswith("1 of 5\nid: q") and "\n5 of 5\n" in first
    assert first.count("model's answer: Bob\nplausible: Ann | Bob\n") == 5
    assert first.count("context: Ann met [[Bob]].") == 5
    drawn = [questions.draw(*files, count, 7, 0.5) for count in (5, 100)]
    assert drawn[0] == drawn[1][:5] and len(drawn[1]) == 12
    assert questions.draw(*files, 5, 8, 0.5) != drawn[0]


def test_texts_stay_out_of_the_repository(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "draw", *files, CHECKOUT / "read.txt")
    assert "is in the repository" in capsys.readouterr().err


def test_share_that_is_expected_chooses_the_threshold(files: tuple[Path, Path]) -> None:
    assert [len(questions.draw(*files, 100, 7, share)) for share in (0.05, 0.5)] == [15, 12]


def test_explains_files_that_do_not_belong_together(files: tuple[Path, Path]) -> None:
    answers, dev = files
    other = dev.with_name("other.json")
    other.write_text(dev.read_text("utf-8").replace('"id": "q', '"id": "o'), encoding="utf-8")
    with pytest.raises(SystemExit, match="none of the unanswerable questions"):
        questions.draw(answers, other, 5, 7, 0.5)
    validation = answers.with_name(f"validation-{answers.name}")
    validation.unlink()
    with pytest.raises(SystemExit, match=f"no {validation.name} beside it"):
        questions.draw(answers, dev, 5, 7, 0.5)


def test_counts_categories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "categories.tsv"
    table.write_text("q1\tnegation\nq2\tentity swap\nq3\tentity swap\n", encoding="utf-8")
    run(monkeypatch, "count", table, tmp_path)
    result = json.loads((tmp_path / "fooled.json").read_text(encoding="utf-8"))
    assert result["ids"] == {"entity swap": ["q2", "q3"], "negation": ["q1"]}
    assert "| entity swap | 2 | 67 % |" in (tmp_path / "fooled.md").read_text(encoding="utf-8")


def test_reads_categories_and_positions(tmp_path: Path) -> None:
    table = tmp_path / "categories.tsv"
    table.write_text("q1\tantonym\t3, 4\nq2\tother\n", encoding="utf-8")
    assert questions.read_categories(table) == [("q1", "antonym", (3, 4)), ("q2", "other", ())]
    for lines, message in (
        ("q1 negation", "line 1: expected"),
        ("q1\ta\tb", "line 1: expected"),
        ("q1\ta\t1\tb", "line 1: expected"),
        ("q1\ta\nq1\tb", "line 2: q1 occurs twice"),
        ("", "is empty"),
    ):
        table.write_text(lines, encoding="utf-8")
        with pytest.raises(SystemExit, match=message):
            questions.read_categories(table)
