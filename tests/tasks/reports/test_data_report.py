"""The report on checked data: its counts, its examples of each fault, and its HTML escaping."""

import json
import re
from html import unescape
from pathlib import Path

from tasks.data.answer_errors import MEANINGS
from tasks.data.ingest import ingest_articles
from tasks.data.schema import Answer, Article, Paragraph, Question
from tasks.reports.data_report import write_check
from tests.factories.html import Page

ATTACK = "</style><script>alert(1)</script>"
CONTEXT = f"The gold  bar, cafe\u0301 & {ATTACK}"


def asked(id: str, *given: tuple[str, int], text: str = "Which one?") -> Question:
    answers = [Answer(text=text, answer_start=start) for text, start in given]
    return Question(id=id, question=text, answers=answers)


QUESTIONS = [
    asked("sound", ("gold", 4), text=f"How many {ATTACK}?"),
    asked("empty", ("gold", 4), text=" "),
    asked("none"),
    asked("blank", ("", 4)),
    *(asked(f"shifted {i}", ("gold", 5 + i)) for i in range(5)),
    asked("spaced", ("gold bar", 4)),
    asked("composed", ("café", 15)),
    asked("absent", (ATTACK.upper(), 3)),
]


def ingested(folder: Path, questions: list[Question], repair: bool = False) -> Path:
    folder.mkdir()
    article = Article(title=ATTACK, paragraphs=[Paragraph(context=CONTEXT, qas=questions)])
    facts = ingest_articles([article], folder, repair)
    (folder / "manifest.json").write_text(json.dumps({"facts": facts}))
    return folder


def page(folder: Path) -> str:
    text = (folder / "report.html").read_text(encoding="utf-8")
    Page(text)
    return text


def test_every_error_is_counted_and_shown_in_place(tmp_path: Path) -> None:
    split = ingested(tmp_path / "own", QUESTIONS)
    facts = write_check(tmp_path, "own", {"own.json": split}, [], None, 1.0)
    assert facts["faults"] == {**dict.fromkeys(MEANINGS, 1), "wrong-offset": 5}
    assert (facts["totals"]["questions"], facts["totals"]["dropped"]) == (12, 11)
    assert facts["over"] == []
    text = page(tmp_path)
    assert text.count('<article class="example wrong">') == len(MEANINGS) - 1 + 3
    for meaning in MEANINGS.values():
        assert meaning[1:] in text
    assert '<mark class="gold">g</mark><mark class="both">old</mark>' in text


def test_text_is_escaped_and_page_loads_nothing(tmp_path: Path) -> None:
    split = ingested(tmp_path / "own", QUESTIONS)
    write_check(tmp_path, ATTACK, {ATTACK: split}, [(ATTACK, ATTACK)], None, 0.0)
    text = page(tmp_path)
    assert "<script" not in text
    assert unescape(text).count(ATTACK) > 5
    assert not re.search(r"""(src|href|url)\s*[=(]""", text)


def test_broken_files_and_excess_rejects_are_reported(tmp_path: Path) -> None:
    split = ingested(tmp_path / "own", QUESTIONS)
    broken = [("b.json", "b.json: not valid JSON.")]
    facts = write_check(tmp_path, "own", {"a.json": split}, broken, None, 0.9)
    assert facts["over"] == ["a.json"]
    text = page(tmp_path)
    assert "not fit for training" in text
    assert "b.json: not valid JSON." in text
    assert "a.json: 11 of 12 questions can't be trained on" in text


def test_repairs_are_reported(tmp_path: Path) -> None:
    split = ingested(tmp_path / "own", QUESTIONS, repair=True)
    facts = write_check(tmp_path, "own", {"own.json": split}, [], None, 1.0)
    assert (facts["totals"]["repaired"], facts["totals"]["dropped"]) == (7, 4)
    assert "5 of them repaired" in page(tmp_path)


def test_sound_data_is_reported_as_fit(tmp_path: Path) -> None:
    split = ingested(tmp_path / "own", QUESTIONS[:1])
    write_check(tmp_path, "own", {"own.json": split}, [], None, 0.0)
    text = page(tmp_path)
    assert "fit for training" in text and "not fit" not in text
    assert "Every answer stands where it says." in text
    assert ">how many<" in text


def test_report_works_with_only_broken_files(tmp_path: Path) -> None:
    write_check(tmp_path, "own", {}, [("a.json", "a.json: it is UTF-16.")], None, 0.05)
    assert "a.json: it is UTF-16." in page(tmp_path)
