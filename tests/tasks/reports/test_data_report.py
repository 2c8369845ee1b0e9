"""The data check's report: its counts, its examples of each kind of error, and HTML escaping."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np

from models.configs.variant import TrainingConfig
from tasks.data.answer_errors import ERROR_DESCRIPTIONS
from tasks.data.ingest import ingest_articles
from tasks.data.schema import Answer, Article, InvalidQuestion, Paragraph, Question
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.reports.data_report import CheckedFiles, CheckedVectors, write_data_report
from tests.factories.html import Page

ATTACK = "</style><script>alert(1)</script>"
TRAINING = TrainingConfig()
CONTEXT = f"The gold  bar, cafe\u0301 & {ATTACK}"


def question(id: str, *spans: tuple[str, int], text: str = "Which one?") -> Question:
    answers = [Answer(text=answer, answer_start=start) for answer, start in spans]
    return Question(id=id, question=text, answers=answers)


QUESTIONS = [
    question("valid", ("gold", 4), text=f"How many {ATTACK}?"),
    question("empty", ("gold", 4), text=" "),
    question("none"),
    question("blank", ("", 4)),
    *(question(f"shifted {i}", ("gold", 5 + i)) for i in range(5)),
    InvalidQuestion(id="invalid", question="", answers=[], reason='field "question": found null'),
    question("spaced", ("gold bar", 4)),
    question("composed", ("café", 15)),
    question("upper", (ATTACK.upper(), 3)),
    question("absent", ("silver", 3)),
]


def ingest_questions(folder: Path, questions: list[Question], repair: bool = False) -> Path:
    folder.mkdir()
    article = Article(title=ATTACK, paragraphs=[Paragraph(context=CONTEXT, qas=questions)])
    facts = {**ingest_articles([article], folder, repair), "read_as": ["read as SQuAD JSON"]}
    (folder / "manifest.json").write_text(json.dumps({"facts": facts}))
    return folder


def checked(split: Path) -> CheckedFiles:
    return CheckedFiles({"own.json": split}, [])


def page(folder: Path) -> str:
    text = (folder / "report.html").read_text(encoding="utf-8")
    Page(text)
    return text


def test_every_error_is_counted_and_shown_in_place(tmp_path: Path) -> None:
    split = ingest_questions(tmp_path / "own", QUESTIONS)
    facts = write_data_report(
        tmp_path, "own", CheckedFiles({"own.json": split}, []), None, TRAINING
    )
    assert facts["faults"] == {**dict.fromkeys(ERROR_DESCRIPTIONS, 1), "wrong-offset": 5}
    assert (facts["totals"]["questions"], facts["totals"]["dropped"]) == (14, 13)
    text = page(tmp_path)
    assert text.count('<article class="example wrong">') == len(ERROR_DESCRIPTIONS) - 1 + 3
    for description in ERROR_DESCRIPTIONS.values():
        assert description[1:] in text
    assert '<mark class="gold">g</mark><mark class="both">old</mark>' in text


def test_text_is_escaped_and_page_loads_nothing(tmp_path: Path) -> None:
    split = ingest_questions(tmp_path / "own", QUESTIONS)
    write_data_report(tmp_path, ATTACK, CheckedFiles({ATTACK: split}, [ATTACK]), None, TRAINING)
    text = page(tmp_path)
    assert "<script" not in text
    assert unescape(text).count(ATTACK) > 5
    assert not re.search(r"""(src|href|url)\s*[=(]""", text)


def test_control_characters_do_not_reach_the_page(tmp_path: Path) -> None:
    hidden = question("hidden", ("silver", 4), text="Which\0 one\x07 is \x1b[31mred?")
    split = ingest_questions(tmp_path / "own", [hidden])
    write_data_report(tmp_path, "own", checked(split), None, TRAINING)
    assert "Which\ufffd one\ufffd is \ufffd[31mred?" in page(tmp_path)


def test_problems_are_reported(tmp_path: Path) -> None:
    split = ingest_questions(tmp_path / "own", QUESTIONS)
    problems = ["b.json: not valid JSON.", "c.json: no questions found."]
    write_data_report(tmp_path, "own", CheckedFiles({"a.json": split}, problems), None, TRAINING)
    text = page(tmp_path)
    assert "not ready for training" in text
    assert all(f'<p class="problem">{problem}</p>' in text for problem in problems)


def test_each_invalid_answer_is_counted(tmp_path: Path) -> None:
    several = question("several", ("gold", 4), ("gold", 5), ("Gold", 4), ("", 4), ("silver", 4))
    split = ingest_questions(tmp_path / "own", [several])
    facts = write_data_report(
        tmp_path, "own", CheckedFiles({"own.json": split}, []), None, TRAINING
    )
    kinds = ("wrong-offset", "other-characters", "absent", "empty-answer")
    assert facts["faults"] == dict.fromkeys(kinds, 1)
    assert (facts["totals"]["exact"], facts["totals"]["invalid_answers"]) == (1, 4)
    assert page(tmp_path).count('<article class="example wrong">') == 4


def test_repairs_are_reported(tmp_path: Path) -> None:
    split = ingest_questions(tmp_path / "own", QUESTIONS, repair=True)
    facts = write_data_report(
        tmp_path, "own", CheckedFiles({"own.json": split}, []), None, TRAINING
    )
    assert (facts["totals"]["repaired"], facts["totals"]["dropped"]) == (8, 5)
    assert "5 of them repaired" in page(tmp_path)


def test_valid_data_is_reported_as_ready(tmp_path: Path) -> None:
    split = ingest_questions(tmp_path / "own", QUESTIONS[:1])
    write_data_report(tmp_path, "own", checked(split), None, TRAINING)
    text = page(tmp_path)
    assert "ready for training" in text and "not ready" not in text
    assert "None: every answer matches the context at its answer_start." in text
    assert ">how many<" in text


def test_report_works_with_only_broken_files(tmp_path: Path) -> None:
    files = CheckedFiles({}, ["a.json: it is UTF-16."])
    write_data_report(tmp_path, "own", files, None, TRAINING)
    assert "a.json: it is UTF-16." in page(tmp_path)


def test_page_says_what_the_vectors_cover(tmp_path: Path) -> None:
    split = ingest_questions(tmp_path / "own", QUESTIONS[:1])
    pages = []
    for words in (["THE", "bar"], ["hibou"]):
        write_vectors(tmp_path, WordSet(words, np.ones((len(words), 2), np.float32)), {})
        vectors = CheckedVectors("own.vec", tmp_path)
        write_data_report(tmp_path, "own", checked(split), vectors, TRAINING)
        pages.append(page(tmp_path))
    assert "A word has no vector in 1 of 1 questions, and in the answers to 1." in pages[0]
    assert "The vectors have more of the words in another case" in pages[0]
    assert "own.vec has no vector for any word of the text." in pages[1]
    assert "not ready for training" in pages[1] and "not ready" not in pages[0]
