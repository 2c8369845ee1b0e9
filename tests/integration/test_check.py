"""`bidaflow check`, run as users run it, and what it prints about more data."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flows.check import announce, check
from flows.common.parameters import DataParameters, VectorParameters
from tasks.datasets.catalog import DATASETS
from tasks.datasets.tiny import generate
from tasks.embeddings.formats.source import PACKAGED
from tests.factories.cli import bidaflow, tests_server
from tests.factories.vectors import write_lines

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server")]


def exit_status(source: str = PACKAGED, **data: Any) -> int:
    """The exit status of a check in this process."""
    with pytest.raises(SystemExit) as ended:
        announce(check(DataParameters(**data), VectorParameters(source=source)))
    return int(ended.value.code or 0)


def shift(articles: list[dict[str, Any]]) -> None:
    for article in articles:
        for paragraph in article["paragraphs"]:
            for number, question in enumerate(paragraph["qas"], 1):
                for answer in question["answers"]:
                    answer["answer_start"] += number  # no convention explains these


@pytest.fixture
def articles() -> list[dict[str, Any]]:
    """Ten articles, of which the last five have wrong offsets."""
    generated: list[dict[str, Any]] = generate(3, 10)[0]["data"]
    shift(generated[5:10])
    return generated


def test_reports_each_file_and_fails(articles: list[dict[str, Any]], tmp_path: Path) -> None:
    folder, root = tmp_path / "own", tmp_path / "root"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"data": articles[:5]}))
    (folder / "b.json").write_text(json.dumps({"data": articles[5:10]}))
    (folder / "c.json").write_text('{"data": [')
    broken = bidaflow(root, "check", str(folder), COLUMNS="200", **tests_server())
    assert broken.returncode == 1
    assert f"{folder / 'b.json'}: 200 of 250 questions (80.0%) can't be trained on" in broken.stdout
    assert 'e.g. question "train-005-0-' in broken.stdout
    assert f"{folder / 'c.json'}: not valid JSON (found the end" in broken.stdout
    assert "Read       a.json: read as SQuAD JSON: 5 articles" in broken.stdout
    samples = broken.stdout.partition("Random answers")[2].partition("Report")[0]
    assert samples.count("[") == 10


def test_repaired_data_can_be_trained_on(
    articles: list[dict[str, Any]], root: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.json").write_text(json.dumps({"data": articles}))
    assert exit_status(dataset=str(tmp_path / "own.json"), repair=True) == 0
    assert (root / "reports" / "check-own.html").exists()


def test_known_data_with_training_of_their_own(root: Path) -> None:
    assert DATASETS["tiny"].training, "checked with the settings that suit it"
    assert exit_status(dataset="tiny") == 0


def test_one_article_is_too_few(
    articles: list[dict[str, Any]], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.json").write_text(json.dumps({"data": articles[:1]}))
    assert exit_status(dataset=str(tmp_path / "one.json")) == 1
    assert "Problem    The data contain only one article" in capsys.readouterr().out


def test_settings_that_suit_few_questions_are_named(
    articles: list[dict[str, Any]], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few.json").write_text(json.dumps({"data": articles[:10]}))
    exit_status(dataset=str(tmp_path / "few.json"), repair=True)
    line = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"Training few has \d+ training questions, so the presets are trained with optimizer adam, "
        r"learning_rate 0.001(, patience 3)?\. ",
        line,
    )


def test_answers_too_long_to_predict_are_named(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = " ".join(f"word{number}" for number in range(20))
    answers = [{"text": words, "answer_start": 0}]
    rows = [
        {"id": str(n), "context": f"{words} {n}", "question": "Which words?", "answers": answers}
        for n in range(3)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert exit_status(dataset=str(tmp_path / "own.jsonl")) == 0
    line = " ".join(capsys.readouterr().out.split())
    assert "Too long 100% of the answers have more than 15 tokens" in line
    assert "Set training.max_answer_tokens, for example to 20." in line


ARABIC = {"context": "افتتح المكتب تذكرة 7.", "question": "متى؟", "answer": "تذكرة"}
ENGLISH = {"context": "The office opened ticket 7 .", "question": "What ?", "answer": "ticket"}


def write_rows(file: Path, text: dict[str, str]) -> str:
    """A JSON Lines file of three articles with the same text; returns its path."""
    answer = {"text": text["answer"], "answer_start": text["context"].index(text["answer"])}
    rows = [
        {
            "id": str(n),
            "context": f"{text['context']} {n}",
            "question": text["question"],
            "answers": [answer],
        }
        for n in range(3)
    ]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("text", "vectors", "status", "lines"),
    [
        (
            ENGLISH,
            ("office 1", "opened 2", "the 3", "what 4", ". 5", "? 6"),
            0,
            "Vectors own.vec has vectors for 66.7 % of the text and 55 % of its distinct words. "
            "A word has no vector in 0 of 3 questions, and in the answers to 3. Report",
        ),
        (ARABIC, (". 1", "7 2"), 0, "Warning The vectors are probably of another language"),
        (ENGLISH, (". 1", "THE 2", "OFFICE 3"), 0, "Warning The vectors have more of the words in"),
        (ENGLISH, ("0 2",), 1, "Problem own.vec has no vector for any word of the text."),
    ],
)
def test_says_what_the_vectors_cover(
    text: dict[str, str],
    vectors: tuple[str, ...],
    status: int,
    lines: str,
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = write_rows(tmp_path / "own.jsonl", text)
    source = write_lines(tmp_path / "own.vec", *vectors)
    assert exit_status(source, dataset=data) == status
    assert lines in " ".join(capsys.readouterr().out.split())
