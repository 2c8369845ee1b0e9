"""Reads and checks files in the SQuAD format, versions 1.1 and 2.0."""

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from tasks.errors import UserError

_ENTRIES = {"data": "article", "paragraphs": "paragraph", "qas": "question", "answers": "answer"}


class _Record(BaseModel):
    # Other fields (plausible_answers, document_id, …) are ignored.
    model_config = ConfigDict(strict=True, frozen=True)


class Answer(_Record):
    """A text and its first code point in the context (-1 where a file does not know it)."""

    text: str
    answer_start: Annotated[int, Field(ge=-1, lt=2**31)]


class Question(_Record):
    """A question with its annotators' answers; without any where it has no answer."""

    # Some collections number their questions: 262 is read as "262".
    id: Annotated[str, Field(strict=False, coerce_numbers_to_str=True, min_length=1)]
    question: str
    answers: list[Answer]
    is_impossible: bool = False


class Paragraph(_Record):
    """A context and the questions about it."""

    context: str
    qas: list[Question]


class Article(_Record):
    """Paragraphs that belong together; titles may repeat or be missing."""

    title: str = ""
    paragraphs: list[Paragraph]


class _File(_Record):
    data: list[Article]


def read_articles(path: Path) -> list[Article]:
    """Reads a SQuAD file: UTF-8 JSON, with or without a byte order mark.

    Raises UserError that names the file, the article, paragraph, question and field, and the mend,
    if the file is missing, is not JSON or not UTF-8, lacks a field, has one of a wrong type, or
    uses a question id twice.
    """
    try:
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise UserError(
            f"{path} can't be read ({error.strerror}); check the path and its permissions."
        ) from error
    try:
        articles = _File.model_validate_json(content).data
    except ValidationError as error:
        raise UserError(f"{path}: {_explain(error, content)}") from error
    try:
        refuse_repeated_ids(articles)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return articles


def refuse_repeated_ids(articles: Iterable[Article]) -> None:
    """Raises UserError if two questions share an id, naming both places."""
    first: dict[str, str] = {}
    for place, question in _questions(articles):
        if question.id in first:
            raise UserError(
                f'question id "{question.id}" stands twice, in {first[question.id]} and in {place};'
                " give each question an id of its own."
            )
        first[question.id] = place


def _questions(articles: Iterable[Article]) -> Iterator[tuple[str, Question]]:
    for a, article in enumerate(articles, 1):
        for p, paragraph in enumerate(article.paragraphs, 1):
            place = f'article {a} "{article.title}", paragraph {p}'
            for question in paragraph.qas:
                yield place, question


def _explain(error: ValidationError, content: bytes) -> str:
    details = error.errors(include_url=False, include_input=False)
    first = details[0]
    if first["type"] == "json_invalid":
        return _explain_bytes(first, content)
    sentence = _explain_field(first, json.loads(content))
    return sentence + (f" (Mistakes in all: {len(details)}.)" if len(details) > 1 else "")


def _explain_bytes(detail: ErrorDetails, content: bytes) -> str:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} is not UTF-8; save the file as UTF-8."
    return f"not valid JSON ({detail['ctx']['error']}); mend it there or download the file again."


def _explain_field(detail: ErrorDetails, root: Any) -> str:
    where, kind = detail["loc"], detail["type"]
    if not where:
        return f'the top level must be {{"data": [articles]}}, not {_shown(root)}.'
    if where == ("data",) and kind == "missing":
        found = ", ".join(list(root)[:5]) or "nothing"
        return f'the field "data" is missing (found: {found}); write {{"data": [articles]}}.'
    entries, value = _walk(where, root)
    place = ", ".join(entries)
    if isinstance(where[-1], str):
        place += f', field "{where[-1]}"' if place else f'field "{where[-1]}"'
    if kind == "missing":
        return f"{place}: missing; add it."
    wanted = detail["msg"].partition(" ")[2]  # "Input should be …", "String should have …"
    return f"{place}: found {_shown(value)}; it {wanted}."


def _walk(where: Sequence[int | str], root: Any) -> tuple[list[str], Any]:
    """Names the entries on the way to a field, and gets the field's value (None if missing)."""
    entries, value, container = [], root, ""
    for step in where:
        value = value[step] if isinstance(step, int) else value.get(step)
        if isinstance(step, int):
            entries.append(f"{_ENTRIES[container]} {step + 1}{_name(value)}")
        else:
            container = step
    return entries, value


def _name(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    name = entry.get("id", entry.get("title"))
    return "" if name is None else f" {_shown(name)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
