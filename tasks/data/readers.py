"""Reads question files one article at a time: SQuAD's JSON, JSON Lines and Parquet.

JSON Lines have one question per line, Parquet one per row. Each question has an `id`, a `context`,
the `question` and its `answers`: a list of {text, answer_start}, or one object
{text: [ … ], answer_start: [ … ]}. `title` and `is_impossible` are optional; without
`is_impossible`, a question with an empty `answers` is unanswerable. Consecutive questions with the
same context share one paragraph, and consecutive questions with the same title form one article;
without titles, each context is an article. A line may also hold a whole article in SQuAD's own
format.
"""

import codecs
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from infra.errors import UserError
from infra.files import READ_PROGRESS, inner_suffix, open_input, row_batches
from tasks.data.format_errors import (
    FormatError,
    explain,
    field_error,
    json_error,
    on_one_line,
    refuse_other_formats,
    short_json,
    utf8_error,
)
from tasks.data.json_stream import Document, array_items
from tasks.data.schema import Article, FlatQuestion, InvalidQuestion, Paragraph, Question

REQUIRED = ("id", "context", "question", "answers")
OPTIONAL = ("title", "is_impossible")

# Values that replace invalid fields of a question.
_REPLACEMENTS: dict[int | str, Any] = {"question": "", "answers": [], "is_impossible": False}


class _Flat(NamedTuple):
    title: str
    context: str
    question: Question


ParsedEntry = Article | _Flat


def read_articles(path: Path) -> Iterator[Article]:
    """Yield the articles of a file lazily; one article is in memory at a time.

    The file name extension determines the format: .jsonl and .ndjson are JSON Lines, .parquet is
    Parquet, anything else is SQuAD's JSON. A compression suffix (.gz, .xz, .zst) is ignored, and
    the file may be a zip member. Text is UTF-8, with or without a byte order mark.

    A question with a missing or invalid field becomes an `InvalidQuestion`.

    Raises UserError if the file can't be read, doesn't match its format, or lacks a field that is
    not a question's, or a question's id, or has a wrong type there. The message names the file, the
    article, paragraph, question and field (or the line, row or byte), and how to fix it.
    """
    try:
        yield from _READERS.get(inner_suffix(path), read_squad)(path)
    except FormatError as error:
        raise UserError(f"{path}: {on_one_line(str(error))}") from error


def read_squad(path: Path) -> Iterator[Article]:
    """Yield the articles of a JSON file in SQuAD's own format; raises FormatError."""
    with _json_input(path) as file:
        document = Document(file)
        if document.peek() != "{":
            raise FormatError(
                f'the top level must be {{"data": [articles]}}, not {document.preview()}.'
            )
        yield from array_items(document, "data", _article)


@contextmanager
def _json_input(path: Path) -> Iterator[BufferedReader]:
    with open_input(path) as file:
        refuse_other_formats(file.peek())
        yield file


def _article(number: int, content: bytes) -> Article:
    try:
        return Article.model_validate_json(content)
    except ValidationError:
        return _validated_article(_tolerant_json(content), f"article {number}")


def _tolerant_json(content: bytes) -> Any:
    """The value of JSON that may have unpaired surrogates; raises ValueError otherwise."""
    try:
        return from_json(content)
    except ValueError as error:
        if "hex escape" not in str(error):
            raise
        # Python's parser accepts unpaired surrogates, and also truncated escapes.
        with suppress(ValueError, RecursionError):
            return json.loads(content)
        raise


def _validated_article(record: Any, place: str) -> Article:
    """The record as an article, with an InvalidQuestion for each invalid question."""
    try:
        return Article.model_validate(record)
    except ValidationError as error:
        details = _question_errors(error, 4, record, place)
    for (_, paragraph, _, number), errors in groupby(details, lambda detail: detail["loc"][:4]):
        questions = record["paragraphs"][paragraph]["qas"]
        questions[number] = _invalid(questions[number], list(errors), 4)
    return Article.model_validate(record)


def _question_errors(
    error: ValidationError, depth: int, record: Any, place: str
) -> list[ErrorDetails]:
    """The errors, if all are in questions; else raises FormatError.

    `depth` is the number of steps from the record to a question. A question without a valid id
    can't be named, so it is not merely invalid.
    """
    details = error.errors(include_url=False, include_input=False)
    if any(_REPLACEMENTS.keys().isdisjoint(detail["loc"][depth : depth + 1]) for detail in details):
        raise field_error(error, place, record) from error
    return details


def _invalid(question: Any, errors: list[ErrorDetails], depth: int) -> InvalidQuestion:
    replaced = {detail["loc"][depth]: _REPLACEMENTS[detail["loc"][depth]] for detail in errors}
    reason = on_one_line(explain(errors[0], depth, question))
    return InvalidQuestion.model_validate(
        {**question, **replaced, "is_impossible": False, "reason": reason}
    )


def read_json_lines(path: Path) -> Iterator[Article]:
    """Yield the articles of a JSON Lines file; raises FormatError, which names the line."""
    with _json_input(path) as file:
        yield from _group(_line_entries(file))


def read_parquet(path: Path) -> Iterator[Article]:
    """Yield the articles of a Parquet file; raises FormatError, which names the row or column."""
    with TemporaryFile() as unpacked:
        file: Path | IO[bytes] = path
        if not path.is_file() or path.suffix.lower() != ".parquet":  # compressed: not seekable
            with open_input(path) as packed:
                shutil.copyfileobj(packed, unpacked)
            file = unpacked
        try:
            yield from _group(_row_entries(file, path))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).partition("\n")[0]
            raise FormatError(
                f"not a complete Parquet file ({reason}); download it again."
            ) from error


def _line_entries(file: Iterable[bytes]) -> Iterator[ParsedEntry]:
    before = 0
    for number, line in enumerate(file, 1):
        content = line.rstrip().removeprefix(codecs.BOM_UTF8 if number == 1 else b"")
        if content:
            yield _parse_entry(_parse_json(content, number, before), f"line {number}")
        before += len(line)


def _parse_json(line: bytes, number: int, before: int) -> Any:
    try:
        return _tolerant_json(line)
    except ValueError as error:
        reason = str(error).replace(" at line 1 ", f" at line {number} ")
        raise utf8_error(line, before) or json_error(reason) from error


def _row_entries(source: Path | IO[bytes], path: Path) -> Iterator[ParsedEntry]:
    with pq.ParquetFile(source) as file:
        names = file.schema_arrow.names
        missing = [name for name in REQUIRED if name not in names]
        if missing:
            raise FormatError(
                f'the column "{missing[0]}" is missing (found: {", ".join(names[:8])}). '
                f"Required: {', '.join(REQUIRED)}; optional: {', '.join(OPTIONAL)}."
            )
        columns = [name for name in (*REQUIRED, *OPTIONAL) if name in names]
        number = 0
        for batch in row_batches(file, rows=256, columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield _parse_entry(row, f"row {number}")
            READ_PROGRESS.get()(path, number / file.metadata.num_rows)


def _parse_entry(record: Any, place: str) -> ParsedEntry:
    if not isinstance(record, dict):
        raise FormatError(f"{place}: found {short_json(record)}; it should be an object.")
    if "answers" in record:
        record["answers"] = _answer_list(record["answers"])
    return (_validated_article if "paragraphs" in record else _flat)(record, place)


def _answer_list(answers: Any) -> Any:
    """Answers as a list of objects; an object of two equally long lists is converted."""
    match answers:
        case {"text": [*texts], "answer_start": [*starts]} if len(texts) == len(starts):
            return [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
    return answers


def _flat(record: Any, place: str) -> _Flat:
    try:
        flat = FlatQuestion.model_validate(record)
        impossible = not flat.answers if flat.is_impossible is None else flat.is_impossible
        fields = flat.model_dump(include={"id", "question"})
        question = Question(**fields, answers=flat.answers, is_impossible=impossible)
    except ValidationError as error:
        question = _invalid(record, _question_errors(error, 0, record, place), 0)
        flat = FlatQuestion.model_validate({**record, **_REPLACEMENTS})
    return _Flat(flat.title or "", flat.context, question)


def _group(entries: Iterable[ParsedEntry]) -> Iterator[Article]:
    for _, same_article in groupby(entries, _article_of):
        flat: list[_Flat] = []
        for entry in same_article:
            if isinstance(entry, Article):
                yield entry
            else:
                flat.append(entry)
        if flat:
            paragraphs = [
                Paragraph(context=context, qas=[entry.question for entry in run])
                for context, run in groupby(flat, lambda entry: entry.context)
            ]
            yield Article(title=flat[0].title, paragraphs=paragraphs)


def _article_of(entry: ParsedEntry) -> tuple[str, str] | None:
    if isinstance(entry, Article):
        return None
    return ("title", entry.title) if entry.title else ("context", entry.context)


_READERS: dict[str, Callable[[Path], Iterator[Article]]] = {
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".parquet": read_parquet,
}
