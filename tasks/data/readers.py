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
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError
from pydantic_core import from_json

from infra.errors import UserError
from infra.files import READ_PROGRESS, inner_suffix, open_input
from infra.parquet import row_batches
from tasks.data.format_errors import (
    FormatError,
    field_error,
    json_error,
    refuse_wide_characters,
    short_json,
    utf8_error,
)
from tasks.data.json_stream import Document, array_items
from tasks.data.schema import Article, FlatQuestion, Paragraph, Question

REQUIRED = ("id", "context", "question", "answers")
OPTIONAL = ("title", "is_impossible")

ParsedEntry = Article | FlatQuestion


def read_articles(path: Path) -> Iterator[Article]:
    """Yield the articles of a file lazily; one article is in memory at a time.

    The file name extension determines the format: .jsonl and .ndjson are JSON Lines, .parquet is
    Parquet, anything else is SQuAD's JSON. A compression suffix (.gz, .xz, .zst) is ignored, and
    the file may be a zip member. Text is UTF-8, with or without a byte order mark.

    Raises UserError if the file can't be read, doesn't match its format, lacks a field or has a
    field of the wrong type. The message names the file, the article, paragraph, question and field
    (or the line, row or byte), and how to fix it.
    """
    try:
        yield from _READERS.get(inner_suffix(path), read_squad)(path)
    except FormatError as error:
        # Text from a file may contain line breaks and terminal codes.
        line = " ".join(str(error).split())
        printable = "".join(c if c.isprintable() else "\ufffd" for c in line)
        raise UserError(f"{path}: {printable}") from error


def read_squad(path: Path) -> Iterator[Article]:
    """Yield the articles of a JSON file in SQuAD's own format; raises FormatError."""
    with open_input(path) as file:
        document = Document(file)
        if document.peek() == "[":
            raise FormatError(
                f'the top level must be {{"data": [articles]}}, not {document.preview()}.'
            )
        yield from array_items(document, "data", _article)


def _article(number: int, content: bytes) -> Article:
    try:
        return Article.model_validate_json(content)
    except ValidationError as error:
        # from_json raises the parser's ValueError if the content is not JSON.
        raise field_error(error, f"article {number}", from_json(content)) from error


def read_json_lines(path: Path) -> Iterator[Article]:
    """Yield the articles of a JSON Lines file; raises FormatError, which names the line."""
    with open_input(path) as file:
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
        if number == 1:
            refuse_wide_characters(line)
        content = line.rstrip().removeprefix(codecs.BOM_UTF8 if number == 1 else b"")
        if content:
            yield _parse_entry(_parse_json(content, number, before), f"line {number}")
        before += len(line)


def _parse_json(line: bytes, number: int, before: int) -> Any:
    try:
        return from_json(line)
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
        record["answers"] = _answer_list(record["answers"], place)
    kind = Article if "paragraphs" in record else FlatQuestion
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        raise field_error(error, place, record) from error


def _answer_list(answers: Any, place: str) -> Any:
    """Answers as a list of objects, converted from an object of lists; raises FormatError."""
    if not isinstance(answers, dict):
        return answers
    texts, starts = answers.get("text"), answers.get("answer_start")
    if not (isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts)):
        raise FormatError(
            f'{place}, field "answers": found {short_json(answers)}; it should be a list '
            "of {text, answer_start}, or one object {text: [ … ], answer_start: [ … ]} with two "
            "lists of equal length."
        )
    return [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]


def _group(entries: Iterable[ParsedEntry]) -> Iterator[Article]:
    for _, same_article in groupby(entries, _article_of):
        flat: list[FlatQuestion] = []
        for entry in same_article:
            if isinstance(entry, Article):
                yield entry
            else:
                flat.append(entry)
        if flat:
            paragraphs = [
                Paragraph(context=context, qas=list(map(_question, run)))
                for context, run in groupby(flat, lambda question: question.context)
            ]
            yield Article(title=flat[0].title or "", paragraphs=paragraphs)


def _article_of(entry: ParsedEntry) -> tuple[str, str] | None:
    if isinstance(entry, Article):
        return None
    return ("title", entry.title) if entry.title else ("context", entry.context)


def _question(flat: FlatQuestion) -> Question:
    return Question(
        id=flat.id,
        question=flat.question,
        answers=flat.answers,
        is_impossible=not flat.answers if flat.is_impossible is None else flat.is_impossible,
    )


_READERS: dict[str, Callable[[Path], Iterator[Article]]] = {
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".parquet": read_parquet,
}
