"""JSON Lines and Parquet files: the grouping of questions, and the errors of malformed files."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.errors import UserError
from tasks.data.readers import Reading, read_articles, read_shards
from tasks.data.schema import Answer, Article, InvalidQuestion, Paragraph, Question

ANSWER = {"text": "gold", "answer_start": 4}
QUESTION = {"id": "q1", "question": "What?", "answers": [ANSWER]}

ROW_ANSWER = Answer(text="gold", answer_start=4)


def squad(*questions: Any, **paragraph: Any) -> dict[str, Any]:
    entry = {"context": "The gold bar", "qas": list(questions), **paragraph}
    return {"version": "1.1", "data": [{"title": "Bars", "paragraphs": [entry]}]}


def read(folder: Path, content: Any) -> list[Article]:
    file = folder / "own.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return list(read_articles(file))


def error_message(folder: Path, content: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, content)
    path, _, sentence = str(caught.value).partition(": ")
    assert path == str(folder / "own.json")
    return sentence


def test_other_fields_may_be_there_or_lack(tmp_path: Path) -> None:
    entry = {"id": 262, "question": "What?", "answers": [], "is_impossible": True}
    content = squad(QUESTION, {**entry, "plausible_answers": [ANSWER]})
    del content["data"][0]["title"]
    (article,) = read(tmp_path, content)
    expected = [
        Question(**{**QUESTION, "answers": [ROW_ANSWER]}),
        Question(**{**entry, "id": "262"}),
    ]
    assert (article.title, article.paragraphs[0].qas) == ("", expected)


def test_bom_and_line_endings_are_ignored(tmp_path: Path) -> None:
    plain = json.dumps(squad(QUESTION), indent=1)
    windows = b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()
    assert read(tmp_path, windows) == read(tmp_path, plain.encode())


@pytest.mark.parametrize(
    ("questions", "sentence"),
    [
        (
            [{**QUESTION, "id": ""}],
            'article 1 "Bars", paragraph 1, question 1 "", field "id": '
            'found ""; it should have at least 1 character.',
        ),
        (
            [{**QUESTION, "id": "\ud800"}],
            'article 1 "Bars", paragraph 1, question 1 "\ufffd", field "id": '
            'found "\ufffd"; it has an unpaired surrogate, which is no character.',
        ),
        (
            [QUESTION, "What?"],
            'article 1 "Bars", paragraph 1, question 2: found "What?"; it should be an object.',
        ),
        (
            [{}, {}],
            'article 1 "Bars", paragraph 1, question 1, field "id": missing; add it. '
            "(article 1 has 6 errors.)",
        ),
    ],
)
def test_error_names_the_field_and_its_place(
    tmp_path: Path, questions: list[Any], sentence: str
) -> None:
    assert error_message(tmp_path, squad(*questions)) == sentence


@pytest.mark.parametrize("ending", ["json", "jsonl"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"answers": 7}, 'field "answers": found 7; it should be a valid list'),
        ({"question": None}, 'field "question": found null; it should be a valid string'),
        (
            {"answers": [ANSWER, {"answer_start": 4}]},
            'answer 2, field "text": missing; add it',
        ),
        (
            {"answers": [{"text": "gold", "answer_start": "four"}]},
            'answer 1, field "answer_start": found "four"; it should be a valid integer',
        ),
        (
            {"answers": [{"text": "gold", "answer_start": 2**31}]},
            'answer 1, field "answer_start": found 2147483648; it should be less than 2147483648',
        ),
        (
            {"answers": {"text": ["a"], "answer_start": []}},
            'field "answers": found {"text": ["a"], "answer_start": []}; it should be a valid list',
        ),
        ({"is_impossible": "no"}, 'field "is_impossible": found "no"; it should be a valid boole'),
        (
            {"question": ["x" * 99]},
            f'field "question": found ["{"x" * 55}…; it should be a valid string',
        ),
        (
            {"question": "What\ud800?"},
            'field "question": found "What\ufffd?"; it has an unpaired surrogate, which is no char',
        ),
    ],
)
def test_invalid_questions_are_kept_with_a_reason(
    tmp_path: Path, ending: str, changes: dict[str, Any], reason: str
) -> None:
    context = {"context": "The gold bar"} if ending == "jsonl" else {}
    questions = [
        context | QUESTION | {"id": "before"},
        context | QUESTION | changes,
        context | QUESTION | {"id": "after"},
    ]
    file = tmp_path / f"own.{ending}"
    entries = questions if ending == "jsonl" else [squad(*questions)]
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    (article,) = read_articles(file)
    (paragraph,) = article.paragraphs
    assert [question.id for question in paragraph.qas] == ["before", "q1", "after"]
    valid = [type(question) is Question for question in paragraph.qas]
    assert valid == [True, False, True]
    invalid = paragraph.qas[1]
    assert isinstance(invalid, InvalidQuestion)
    assert invalid.reason.startswith(reason)
    assert not invalid.is_impossible
    if "question" not in changes:
        assert invalid.question == "What?"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([squad()], "the format is not known: the first record has version, data. Accepted are"),
        ([7], "row 1: found 7; it should be an object."),
        ({"articles": [], "v": 2}, 'the field "data" is missing (found: articles, v); write'),
        ({}, 'the field "data" is missing (found: nothing); write'),
        ({"data": {}}, 'field "data": found {}; it should be an array.'),
        (b"null", 'the top level must be {"data": [articles]}, not null.'),
        (b" 12 ", 'the top level must be {"data": [articles]}, not 12'),
        (b"version https://git-lfs.github.com/spec/v1\n", "the file is a Git LFS pointer, not the"),
        (b"PK\3\4\0\0", "the file is a zip archive. Rename it so that it ends in .zip."),
        (b"PAR1\0\0", "not a complete Parquet file ("),
        (b'{"data": [], "data": []}', 'the field "data" occurs twice; merge the two.'),
        (b'{"id": "1"}\n{"id": "2"}\n', 'line 1 "1", field "context": missing; add it.'),
        (b'{"data": []} and more', "text follows the end of the JSON (and more); remove it."),
        (b"\n<html>", "the file is HTML or XML. Download the data file itself, not a page about"),
        (b'{"data": [\n  {,\n]}', "not valid JSON (key must be a string at line 2 column 4)"),
        (
            b'{"data": [\n{"paragraphs": []}\n 1]}',
            "not valid JSON (found `1`, not `,` or `]`, at line 3 column 2",
        ),
        (b'{"data": [{"title": 1,}]}', "not valid JSON (trailing comma at line 1 column 23)"),
        (b'{"data": [ ,]}', "not valid JSON (found `,`, not a value, at line 1 column 12)"),
        (
            b'{"data": [',
            "not valid JSON (found the end of the file, not a value, at line 1 column 11)",
        ),
        (b'{"data": [{"a": [1, ', "not valid JSON (EOF while parsing a value at line 1 column 20)"),
        (b'{"version": tru', "not valid JSON (EOF while parsing a value at line 1 column 15)"),
        (b'{"a": 1, 2: 3}', 'not valid JSON (found `2`, not `"`, at line 1 column 10)'),
        (b"", "the file is empty. Download it again."),
        (
            '{"data": ["é"]}'.encode("latin-1"),
            "byte 12 (0xE9, 'é' in Windows-1252) is not UTF-8; save the file as UTF-8.",
        ),
        ('{"data": []}'.encode("utf-16"), "the file is UTF-16 or UTF-32; save it as UTF-8."),
        ('{"data": []}'.encode("utf-16-be"), "the file is UTF-16 or UTF-32; save it as UTF-8."),
        (
            b'{"data": [{"title": "\\ud800", "paragraphs": []}]}',
            'article 1 "\ufffd", field "title": found "\ufffd"; it has an unpaired surrogate',
        ),
        (b'{"data": [{"title": "\\ud8"}]}', "not valid JSON (invalid escape"),
        (b'{"data": [{"title": "a\x01"}]}', "not valid JSON (control character"),
        (b'{"data": [' + b"[" * 200_000, "not valid JSON (recursion limit exceeded at line 1"),
        (b'{"data": [' + b"[" * 999 + b"]" * 999 + b"]}", "not valid JSON (recursion limit"),
        (b'{"data": [' + b"9" * 5000 + b"]}", "not valid JSON (number out of range"),
        (b'{"data": [1e999]}', "article 1: found Infinity; it should be an object."),
        (b'{"data": [NaN]}', "article 1: found NaN; it should be an object."),
        (b'{"data": [null]}', "article 1: found null; it should be an object."),
        (
            {"data": [{"paragraphs": []}, {"title": "Rings", "paragraphs": [{}]}]},
            'article 2 "Rings", paragraph 1, field "context": missing',
        ),
    ],
)
def test_rejects_files_of_another_format(tmp_path: Path, content: Any, sentence: str) -> None:
    assert error_message(tmp_path, content).startswith(sentence)


@pytest.mark.parametrize("name", ["own.csv", "own", "own.csv.gz", "own.tsv"])
def test_tables_are_recognised_by_their_header(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    compress = gzip.compress if name.endswith(".gz") else bytes
    file.write_bytes(compress(b"id,question\n1,What?\n"))
    assert file_error_message(file).startswith('the column "context" is missing (found: id, quest')
    file.write_bytes(
        compress(b'\xef\xbb\xbfquestion,context,answer\n"What, now?","The\ngold bar",gold\n')
    )
    (article,) = read_articles(file)
    (found,) = article.paragraphs[0].qas
    assert (article.paragraphs[0].context, found.question) == ("The\ngold bar", "What, now?")
    assert found.answers == [ROW_ANSWER]
    file.write_bytes(compress(json.dumps(squad(QUESTION)).encode()))
    assert [article.title for article in read_articles(file)] == ["Bars"]


def test_columns_of_other_names_are_mapped(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("q;text;a;at\nWhat?;The gold bar;gold;4\nWhich?;The gold bar;;\n")
    columns = "question=q, context=text, answer=a, answer_start=at"
    (article,) = read_articles(file, Reading(columns))
    first, second = article.paragraphs[0].qas
    assert (first.answers, second.is_impossible) == ([ROW_ANSWER], True)
    assert file_error_message(file).startswith('the column "context" is missing (found: q, text')
    file.write_text("question,context\nWhat?,The gold bar\nWhat?,The gold, bar\n")
    assert file_error_message(file).startswith("row 2 has another number of cells than the header")


def test_unreadable_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"can't be read \(Is a directory"):
        list(read_articles(tmp_path))
    for name in ("nowhere.json", "nowhere.parquet"):
        with pytest.raises(UserError, match=rf"No such file: .*{name}\. Check the path\."):
            list(read_articles(tmp_path / name))


@pytest.mark.parametrize(
    ("file", "articles", "paragraphs", "questions", "impossible"),
    [
        ("squad/dev-v1.1.json", 48, 2067, 10570, 0),
        ("squad/dev-v2.0.json", 35, 1204, 11873, 5945),
        ("squad/train-v1.1-recovered.json", 722, 11971, 54086, 0),
        ("squad/cs224n-dev-v2.0.json", 16, 646, 6078, 3168),
        ("qa/covid_qa.json", 98, 98, 1380, 0),
        ("qa/squadshifts-new_wiki.json", 48, 1581, 7938, 0),
    ],
)
def test_reads_real_files_completely(
    shared_data: Path, file: str, articles: int, paragraphs: int, questions: int, impossible: int
) -> None:
    loaded = list(read_articles(shared_data / file))
    contexts = [paragraph for article in loaded for paragraph in article.paragraphs]
    entries = [question for paragraph in contexts for question in paragraph.qas]
    assert (len(loaded), len(contexts), len(entries)) == (articles, paragraphs, questions)
    assert sum(question.is_impossible for question in entries) == impossible


def flat(id: str, context: str = "The gold bar", **more: Any) -> dict[str, Any]:
    return {"id": id, "context": context, "question": f"{id}?", "answers": [ANSWER]} | more


def question_of(id: str, *answers: Answer, impossible: bool = False) -> Question:
    return Question(id=id, question=f"{id}?", answers=list(answers), is_impossible=impossible)


def lines(folder: Path, *entries: Any) -> Path:
    file = folder / "own.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return file


def file_error_message(file: Path) -> str:
    with pytest.raises(UserError) as caught:
        list(read_articles(file))
    path, _, sentence = str(caught.value).partition(": ")
    assert path == str(file)
    return sentence


BARS = Paragraph(
    context="The gold bar", qas=[question_of("a", ROW_ANSWER), question_of("b", ROW_ANSWER)]
)


def test_adjacent_rows_share_contexts_and_articles(tmp_path: Path) -> None:
    file = lines(
        tmp_path,
        flat("a", title="Bars"),
        flat("b", title="Bars", other=1),
        flat("c", "A gold ring", title="Bars"),
        flat("d", title="Rings"),
    )
    ring = Paragraph(context="A gold ring", qas=[question_of("c", ROW_ANSWER)])
    last = Paragraph(context="The gold bar", qas=[question_of("d", ROW_ANSWER)])
    assert list(read_articles(file)) == [
        Article(title="Bars", paragraphs=[BARS, ring]),
        Article(title="Rings", paragraphs=[last]),
    ]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_shuffled_rows_are_grouped_by_title(tmp_path: Path, ending: str) -> None:
    """As a database exports them: every row before the next one of its context and its article."""
    rows = [
        flat(
            f"{article}{context}{row}", f"The gold bar {article}{context}", title=f"Bars {article}"
        )
        for article in range(5)
        for context in range(3)
        for row in range(4)
    ]
    in_order = lines(tmp_path, *rows)
    expected = list(read_articles(in_order))
    assert [len(article.paragraphs) for article in expected] == [3] * 5
    Random(1).shuffle(rows)
    file = tmp_path / f"shuffled.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=7)
    else:
        compress = gzip.compress if ending.endswith("gz") else bytes
        file.write_bytes(compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows)))
    articles = {article.title: article for article in read_articles(file)}
    assert [*articles] == list(dict.fromkeys(row["title"] for row in rows))
    for article in expected:
        found = articles[article.title]
        assert contents(found) == contents(article)
    assert max(shard.share for shard in read_shards(file)) == 1


def contents(article: Article) -> dict[str, set[str]]:
    return {p.context: {question.id for question in p.qas} for p in article.paragraphs}


def test_untitled_rows_are_an_article_by_context(tmp_path: Path) -> None:
    rows = [
        flat("a", title="Bars"),
        flat("b", "A gold ring"),
        flat("c", title="Bars"),
        flat("d", "A gold ring"),
        flat("e", title=None),
    ]
    articles = list(read_articles(lines(tmp_path, *rows)))
    assert [list(contents(article).values()) for article in articles] == [
        [{"a", "c"}],
        [{"b", "d"}],
        [{"e"}],
    ]


def test_error_names_the_line_of_a_shuffled_file(tmp_path: Path) -> None:
    rows = [flat("a", title="Bars"), flat("b", title="Rings"), flat("c", title="Bars"), {"id": 7}]
    assert file_error_message(lines(tmp_path, *rows)).startswith('line 4 7, field "context": miss')


def test_line_can_hold_a_whole_article(tmp_path: Path) -> None:
    article = Article(title="Bars", paragraphs=[BARS])
    file = lines(tmp_path, article.model_dump(), flat("c"), article.model_dump())
    articles = list(read_articles(file))
    assert (articles[0], articles[2]) == (article, article)
    assert articles[1].paragraphs[0].qas == [question_of("c", ROW_ANSWER)]


WITHOUT_START = [Answer(text="gold"), Answer(text="bar")]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([], []),
        ({"text": []}, []),
        ({"text": [], "answer_start": []}, []),
        ({"text": ["gold", "bar"]}, WITHOUT_START),
        ({"text": ["gold", "bar"], "answer_start": None}, WITHOUT_START),
        ([{"text": "gold"}, {"text": "bar", "answer_start": None}], WITHOUT_START),
    ],
)
def test_answers_may_lack_their_starts_or_all(
    tmp_path: Path, answers: Any, expected: list[Answer]
) -> None:
    """Without answers, a row is an unanswerable question, unless it says otherwise."""
    entries = [{**flat("a"), "answers": answers}, {**flat("b", is_impossible=False), "answers": []}]
    (article,) = read_articles(lines(tmp_path, *entries))
    first = question_of("a", *expected, impossible=not expected)
    assert article.paragraphs[0].qas == [first, question_of("b")]


def test_bom_crlf_and_empty_lines_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "own.ndjson"
    file.write_bytes(b"\xef\xbb\xbf\r\n" + json.dumps(flat("a")).encode() + b"\r\n\r\n")
    assert len(list(read_articles(file))) == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"id": "b"', "not valid JSON (EOF while parsing an object at line 2 column 10)"),
        ('{"id": "é"}'.encode("latin-1"), "byte 116 (0xE9, 'é' in Windows-1252) is not UTF-8"),
        (b'{"id": "\\ud800"}', 'line 2 "\ufffd", field "id": found "\ufffd"; it has an unpaired'),
        (b"[" * 100_000, "not valid JSON (recursion limit exceeded at line 2"),
        (b"[1, 2]", "line 2: found [1, 2]; it should be an object."),
        (b'{"id": "b"}', 'line 2 "b", field "context": missing; add it. (line 2 has 3 errors.)'),
        (
            b'{"paragraphs": [{"context": null, "qas": []}]}',
            'line 2, paragraph 1, field "context": found null; it should be a valid string.',
        ),
    ],
)
def test_error_names_the_broken_line(tmp_path: Path, line: bytes, sentence: str) -> None:
    file = lines(tmp_path, flat("a"))
    file.write_bytes(file.read_bytes() + line + b"\n" + json.dumps(flat("c")).encode())
    assert file_error_message(file).startswith(sentence)


def table(**changes: Any) -> pa.Table:
    """Two questions in the layout of Hugging Face datasets; the second has no answer."""
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


def test_reads_parquet_rows(tmp_path: Path) -> None:
    file = tmp_path / "own.parquet"
    pq.write_table(table(), file)
    questions = [question_of("a", ROW_ANSWER), question_of("b", impossible=True)]
    paragraph = Paragraph(context="The gold bar", qas=questions)
    assert list(read_articles(file)) == [Article(title="Bars", paragraphs=[paragraph])]
    for name in ("own.parquet.gz", "gzip.parquet"):
        packed = tmp_path / name
        packed.write_bytes(gzip.compress(file.read_bytes()))
        assert list(read_articles(packed)) == list(read_articles(file))


def test_one_large_parquet_row_group_is_streamed(tmp_path: Path) -> None:
    random, file, count = Random(0), tmp_path / "own.parquet", 10_000
    columns = {
        "id": list(map(str, range(count))),
        "context": [random.randbytes(1000).hex() for _ in range(count)],
        "question": ["Why?"] * count,
        "answers": [{"text": [], "answer_start": []}] * count,
    }
    pq.write_table(pa.table(columns), file, use_dictionary=False)
    assert pq.read_metadata(file).num_row_groups == 1
    del columns
    before = pa.total_allocated_bytes()
    peak = max(pa.total_allocated_bytes() - before for _ in read_shards(file))
    assert 0 < peak < file.stat().st_size / 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"context": None}, 'the column "context" is missing (found: id, title, question, answers'),
        ({"id": ["", "b"]}, 'row 1 "", field "id": found ""; it should have at least 1 character.'),
    ],
)
def test_error_names_the_wrong_column_or_row(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    file = tmp_path / "own.parquet"
    pq.write_table(table(**changes), file)
    assert file_error_message(file).startswith(sentence)


def test_invalid_rows_are_kept_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "own.parquet"
    answers = [[ANSWER], [{"text": "x", "answer_start": -7}]]
    pq.write_table(table(question=[None, "b?"], answers=answers), file)
    (article,) = read_articles(file)
    reasons = [getattr(question, "reason", "") for question in article.paragraphs[0].qas]
    assert reasons == [
        'field "question": found null; it should be a valid string',
        'answer 1, field "answer_start": found -7; it should be greater than or equal to -1',
    ]


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_rejects_truncated_parquet_files(tmp_path: Path, size: int) -> None:
    file = tmp_path / "own.parquet"
    pq.write_table(table(), file)
    file.write_bytes(file.read_bytes()[:size])
    assert file_error_message(file).startswith("not a complete Parquet file (")
