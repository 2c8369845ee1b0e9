"""Questions that are converted to each format, and read again, are the same."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.data.convert import OutputFormat, convert_file
from tasks.data.readers import read_articles

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.strip)


@st.composite
def paragraphs(draw: st.DrawFn) -> dict[str, Any]:
    """A context, and questions with up to three answers, some at wrong offsets."""
    context = draw(TEXT)
    questions = []
    for question in draw(st.lists(TEXT, max_size=3)):
        start = draw(st.integers(0, len(context) - 1))
        text = context[start : draw(st.integers(start + 1, len(context)))]
        answers = [{"text": text, "answer_start": start}] if text.strip() else []
        answers += [{"text": t, "answer_start": -1} for t in draw(st.lists(TEXT, max_size=2))]
        questions.append({"question": question, "answers": answers, "is_impossible": not answers})
    return {"context": context, "qas": questions}


@pytest.mark.parametrize("output_format", get_args(OutputFormat))
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXT, st.lists(paragraphs(), max_size=3)), max_size=3))
def test_round_trip_keeps_questions(
    output_format: OutputFormat, articles: list[tuple[str, list[dict[str, Any]]]]
) -> None:
    data = [{"title": title, "paragraphs": parts} for title, parts in articles]
    questions = [question for _, parts in articles for part in parts for question in part["qas"]]
    for number, question in enumerate(questions):
        question["id"] = str(number)
    with TemporaryDirectory() as name:
        file, out = Path(name) / "own.json", Path(name) / "out"
        file.write_text(json.dumps({"data": data}))
        assert convert_file(file, out, output_format) == (len(questions), 0)
        if questions:
            assert contents(out) == contents(file)


def contents(file: Path) -> list[Any]:
    """The context and the question of each question of a file, in the order of the ids."""
    pairs = [
        (paragraph.context, question)
        for article in read_articles(file)
        for paragraph in article.paragraphs
        for question in paragraph.qas
    ]
    return sorted(pairs, key=lambda pair: int(pair[1].id))


def test_invalid_questions_are_counted(tmp_path: Path) -> None:
    row = {"id": 1, "context": "The gold bar", "question": "What?", "answers": 7}
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    assert convert_file(tmp_path / "own.jsonl", tmp_path / "out.json", "squad") == (0, 1)
