"""Questions one a line and one a row: how they are grouped, and what is told of broken ones."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import UserError
from tasks.reading import read_articles
from tasks.squad import Answer, Article, Paragraph, Question

GOLD = {"text": "gold", "answer_start": 4}


def flat(id: str, context: str = "The gold bar", **more: Any) -> dict[str, Any]:
    return {"id": id, "context": context, "question": f"{id}?", "answers": [GOLD], **more}


def asked(id: str, *given: Answer, impossible: bool = False) -> Question:
    return Question(id=id, question=f"{id}?", answers=list(given), is_impossible=impossible)


def lines(folder: Path, *entries: Any) -> Path:
    file = folder / "own.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return file


def complaint(file: Path) -> str:
    with pytest.raises(UserError) as caught:
        list(read_articles(file))
    path, _, sentence = str(caught.value).partition(": ")
    assert path == str(file)
    return sentence


ANSWER = Answer(text="gold", answer_start=4)
BARS = Paragraph(context="The gold bar", qas=[asked("a", ANSWER), asked("b", ANSWER)])


def test_neighbours_share_a_context_and_an_article(tmp_path: Path) -> None:
    file = lines(
        tmp_path,
        flat("a", title="Bars"),
        flat("b", title="Bars", other=1),
        flat("c", "A gold ring", title="Bars"),
        flat("d", title="Rings"),
    )
    ring = Paragraph(context="A gold ring", qas=[asked("c", ANSWER)])
    last = Paragraph(context="The gold bar", qas=[asked("d", ANSWER)])
    assert list(read_articles(file)) == [
        Article(title="Bars", paragraphs=[BARS, ring]),
        Article(title="Rings", paragraphs=[last]),
    ]


def test_without_titles_each_context_is_an_article(tmp_path: Path) -> None:
    file = lines(tmp_path, flat("a"), flat("b"), flat("c", "A gold ring", title=None))
    assert [len(article.paragraphs) for article in read_articles(file)] == [1, 1]


def test_a_line_may_be_a_whole_article(tmp_path: Path) -> None:
    article = Article(title="Bars", paragraphs=[BARS])
    file = lines(tmp_path, article.model_dump(), flat("c"), article.model_dump())
    articles = list(read_articles(file))
    assert (articles[0], articles[2]) == (article, article)
    assert articles[1].paragraphs[0].qas == [asked("c", ANSWER)]


@pytest.mark.parametrize("answers", [[], {"text": [], "answer_start": []}])
def test_without_is_impossible_a_question_without_answers_has_none(
    tmp_path: Path, answers: Any
) -> None:
    entries = [{**flat("a"), "answers": answers}, {**flat("b", is_impossible=False), "answers": []}]
    (article,) = read_articles(lines(tmp_path, *entries))
    assert article.paragraphs[0].qas == [asked("a", impossible=True), asked("b")]


def test_marks_line_ends_and_empty_lines_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "own.ndjson"
    file.write_bytes(b"\xef\xbb\xbf\r\n" + json.dumps(flat("a")).encode() + b"\r\n\r\n")
    assert len(list(read_articles(file))) == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"id": "b"', "not valid JSON (EOF while parsing an object at line 2 column 10)"),
        ('{"id": "é"}'.encode("latin-1"), "byte 116 (0xE9, 'é' in Windows-1252) is not UTF-8"),
        (b'{"id": "\\ud800"}', "not valid JSON (unexpected end of hex escape at line 2 column"),
        (b"[" * 100_000, "not valid JSON (recursion limit exceeded at line 2"),
        (b"[1, 2]", "line 2: found [1, 2]; it should be an object."),
        (b'{"id": "b"}', 'line 2 "b", field "context": missing; add it. (Mistakes in line 2: 3.)'),
        (
            b'{"paragraphs": [{"context": null, "qas": []}]}',
            'line 2, paragraph 1, field "context": found null; it should be a valid string.',
        ),
        (
            json.dumps({**flat("b"), "answers": {"text": ["a"], "answer_start": []}}).encode(),
            'line 2, field "answers": found {"text": ["a"], "answer_start": []}; it should',
        ),
        (
            json.dumps({**flat("b"), "answers": {"text": ["a"], "answer_start": [None]}}).encode(),
            'line 2 "b", answer 1, field "answer_start": found null; it should be a valid integer.',
        ),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: bytes, sentence: str) -> None:
    file = lines(tmp_path, flat("a"))
    file.write_bytes(file.read_bytes() + line + b"\n" + json.dumps(flat("c")).encode())
    assert complaint(file).startswith(sentence)


def table(**changes: Any) -> pa.Table:
    """Two questions as Hugging Face's sets have them, the second without answer."""
    columns = {
        "id": ["a", "b"],
        "title": ["Bars", "Bars"],
        "context": ["The gold bar", "The gold bar"],
        "question": ["a?", "b?"],
        "answers": [
            {"text": ["gold"], "answer_start": [4]},
            {"text": [], "answer_start": []},
        ],
    }
    changed = {name: value for name, value in {**columns, **changes}.items() if value is not None}
    return pa.table(changed)


def test_rows_of_parquet(tmp_path: Path) -> None:
    file = tmp_path / "own.parquet"
    pq.write_table(table(), file)
    questions = [asked("a", ANSWER), asked("b", impossible=True)]
    paragraph = Paragraph(context="The gold bar", qas=questions)
    assert list(read_articles(file)) == [Article(title="Bars", paragraphs=[paragraph])]
    packed = tmp_path / "own.parquet.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert list(read_articles(packed)) == list(read_articles(file))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"context": None}, 'the column "context" is missing (found: id, title, question, answers'),
        ({"question": ["a?", None]}, 'row 2 "b", field "question": found null; it should be'),
        ({"answers": [[GOLD], [{"text": "x", "answer_start": -7}]]}, 'row 2 "b", answer 1, field'),
        ({"id": [None, "b"]}, 'row 1, field "id": found null; it should be a valid string.'),
    ],
)
def test_a_wrong_column_or_row_is_named(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    file = tmp_path / "own.parquet"
    pq.write_table(table(**changes), file)
    assert complaint(file).startswith(sentence)


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_a_parquet_file_that_is_broken_off_is_refused(tmp_path: Path, size: int) -> None:
    file = tmp_path / "own.parquet"
    pq.write_table(table(), file)
    file.write_bytes(file.read_bytes()[:size])
    assert complaint(file).startswith("not a whole Parquet file (")


def test_a_missing_parquet_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read"):
        list(read_articles(tmp_path / "nowhere.parquet"))
