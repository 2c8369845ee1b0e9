"""Files of questions: what is read, and what a person is told about a broken one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import UserError
from tasks.reading import read_articles
from tasks.squad import Article

ANSWER = {"text": "gold", "answer_start": 4}
QUESTION = {"id": "q1", "question": "What?", "answers": [ANSWER]}


def squad(*questions: Any, **paragraph: Any) -> dict[str, Any]:
    entry = {"context": "The gold bar", "qas": list(questions), **paragraph}
    return {"version": "1.1", "data": [{"title": "Bars", "paragraphs": [entry]}]}


def read(folder: Path, content: Any) -> list[Article]:
    file = folder / "own.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return list(read_articles(file))


def complaint(folder: Path, content: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, content)
    path, _, sentence = str(caught.value).partition(": ")
    assert path == str(folder / "own.json")
    return sentence


def test_version_1_has_no_impossible_questions(tmp_path: Path) -> None:
    question = read(tmp_path, squad(QUESTION))[0].paragraphs[0].qas[0]
    assert (question.id, question.question, question.is_impossible) == ("q1", "What?", False)
    assert [(a.text, a.answer_start) for a in question.answers] == [("gold", 4)]


def test_version_2_ignores_plausible_answers(tmp_path: Path) -> None:
    entry = {**QUESTION, "answers": [], "is_impossible": True, "plausible_answers": [ANSWER]}
    question = read(tmp_path, squad(entry))[0].paragraphs[0].qas[0]
    assert question.is_impossible
    assert question.answers == []


def test_byte_order_mark_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    plain = json.dumps(squad(QUESTION), indent=1)
    windows = b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()
    assert read(tmp_path, windows) == read(tmp_path, plain.encode())


def test_numbered_questions_and_untitled_articles_are_read(tmp_path: Path) -> None:
    content = squad({**QUESTION, "id": 262})
    del content["data"][0]["title"]
    article = read(tmp_path, content)[0]
    assert (article.title, article.paragraphs[0].qas[0].id) == ("", "262")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (
            {"id": "q1", "question": "What?"},
            'article 1 "Bars", paragraph 1, question 1 "q1", field "answers": missing; add it.',
        ),
        (
            {"question": "What?", "answers": []},
            'article 1 "Bars", paragraph 1, question 1, field "id": missing; add it.',
        ),
        (
            {**QUESTION, "answers": [ANSWER, {"text": "gold"}]},
            'article 1 "Bars", paragraph 1, question 1 "q1", answer 2, field "answer_start": '
            "missing; add it.",
        ),
        (
            {**QUESTION, "answers": [{"text": "gold", "answer_start": "4"}]},
            'article 1 "Bars", paragraph 1, question 1 "q1", answer 1, field "answer_start": '
            'found "4"; it should be a valid integer.',
        ),
        (
            {**QUESTION, "id": ""},
            'article 1 "Bars", paragraph 1, question 1 "", field "id": '
            'found ""; it should have at least 1 character.',
        ),
        (
            {**QUESTION, "is_impossible": "no"},
            'article 1 "Bars", paragraph 1, question 1 "q1", field "is_impossible": '
            'found "no"; it should be a valid boolean.',
        ),
        (
            {**QUESTION, "question": ["x" * 99]},
            'article 1 "Bars", paragraph 1, question 1 "q1", field "question": '
            f'found ["{"x" * 55}…; it should be a valid string.',
        ),
        (
            "What?",
            'article 1 "Bars", paragraph 1, question 1: found "What?"; it should be an object.',
        ),
    ],
)
def test_a_broken_field_is_named_with_its_place(
    tmp_path: Path, question: Any, sentence: str
) -> None:
    assert complaint(tmp_path, squad(question)) == sentence


def test_further_mistakes_are_counted(tmp_path: Path) -> None:
    assert complaint(tmp_path, squad({}, {})).endswith("(Mistakes in article 1: 6.)")


def test_place_counts_from_the_file_not_from_the_first_article(tmp_path: Path) -> None:
    content = squad(QUESTION)
    content["data"].append({"title": "Rings", "paragraphs": [{"context": "", "qas": []}, {}]})
    assert complaint(tmp_path, content).startswith(
        'article 2 "Rings", paragraph 2, field "context": missing'
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([squad()], 'the top level must be {"data": [articles]}, not [{"version":'),
        ({"articles": [], "v": 2}, 'the field "data" is missing (found: articles, v); write'),
        ({}, 'the field "data" is missing (found: nothing); write'),
        ({"data": {}}, 'field "data": found {}}; it should be an array.'),
        (b'{"data": [], "data": []}', 'the field "data" stands twice; join the two.'),
        (b'{"data": []} and more', "text follows the end of the JSON (and more); remove it."),
        (b"<html>", "not valid JSON (found `<`, not `{`, at line 1 column 1)"),
        (b'{"data": [\n  {,\n]}', "not valid JSON (key must be a string at line 2 column 4)"),
        (
            b'{"data": [\n{"paragraphs": []}\n 1]}',
            "not valid JSON (found `1`, not `,` or `]`, at line 3 column 2",
        ),
        (b'{"data": [{"title": 1,}]}', "not valid JSON (trailing comma at line 1 column 23)"),
        (b'{"data": [ ,]}', "not valid JSON (found `,`, not a value, at line 1 column 12)"),
        (b'{"data": [', "not valid JSON (found the end, not a value, at line 1 column 11)"),
        (b'{"data": [{"a": [1, ', "not valid JSON (EOF while parsing a value at line 1 column 20)"),
        (b'{"version": tru', "not valid JSON (EOF while parsing a value at line 1 column 15)"),
        (b'{"a": 1, 2: 3}', 'not valid JSON (found `2`, not `"`, at line 1 column 10)'),
        (b"", "not valid JSON (found the end, not `{`, at line 1 column 1)"),
        (
            '{"data": ["é"]}'.encode("latin-1"),
            "byte 12 (0xE9, 'é' in Windows-1252) is not UTF-8; save the file as UTF-8.",
        ),
        ('{"data": []}'.encode("utf-16"), "it is UTF-16 or UTF-32; save the file as UTF-8."),
        ('{"data": []}'.encode("utf-16-be"), "it is UTF-16 or UTF-32; save the file as UTF-8."),
        (b'{"data": [{"title": "\\ud800"}]}', "not valid JSON (unexpected end of hex escape"),
        (b'{"data": [{"title": "\\udc00x"}]}', "not valid JSON (lone leading surrogate in hex"),
        (b'{"data": [{"title": "a\x01"}]}', "not valid JSON (control character"),
        (b'{"data": [' + b"[" * 200_000, "not valid JSON (recursion limit exceeded at line 1"),
        (b'{"data": [' + b"[" * 999 + b"]" * 999 + b"]}", "not valid JSON (recursion limit"),
        (b'{"data": [' + b"9" * 5000 + b"]}", "not valid JSON (number out of range"),
        (b'{"data": [1e999]}', "article 1: found Infinity; it should be an object."),
        (b'{"data": [NaN]}', "article 1: found NaN; it should be an object."),
        (b'{"data": [null]}', "article 1: found null; it should be an object."),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: Any, sentence: str) -> None:
    assert complaint(tmp_path, content).startswith(sentence)


@pytest.mark.parametrize("name", ["nowhere.json", "."])
def test_a_path_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"can't be read \((No such file|Is a directory)"):
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
def test_real_files_are_read_whole(
    shared_data: Path, file: str, articles: int, paragraphs: int, questions: int, impossible: int
) -> None:
    found = list(read_articles(shared_data / file))
    entries = [paragraph for article in found for paragraph in article.paragraphs]
    asked = [question for entry in entries for question in entry.qas]
    assert (len(found), len(entries), len(asked)) == (articles, paragraphs, questions)
    assert sum(question.is_impossible for question in asked) == impossible
