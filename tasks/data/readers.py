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
from infra.files import HOW_FAR, inner_suffix, open_input
from infra.parquet import row_batches
from tasks.data.format_errors import (
    Mistake,
    json_reason,
    not_json,
    not_utf8,
    refuse_wide_characters,
    shown,
    wrong_field,
)
from tasks.data.json_stream import Document, Value, array_items
from tasks.data.schema import Article, FlatQuestion, Paragraph, Question

REQUIRED = ("id", "context", "question", "answers")
OPTIONAL = ("title", "is_impossible")
BATCH_ROWS = 256

Entry = Article | FlatQuestion


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
    except Mistake as mistake:
        raise UserError(f"{path}: {_on_one_line(str(mistake))}") from mistake


def _on_one_line(sentence: str) -> str:
    """The sentence without line breaks and terminal codes that text from a file may contain."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(sentence.split()))


def read_squad(path: Path) -> Iterator[Article]:
    """Yield the articles of a JSON file in SQuAD's own format; raises Mistake."""
    with open_input(path) as file:
        document = Document(file)
        if document.peek() == b"[":
            raise Mistake(
                f'the top level must be {{"data": [articles]}}, not {document.beginning()}.'
            )
        for number, value in enumerate(array_items(document, "data"), 1):
            yield _article(document, value, number)


def _article(document: Document, value: Value, number: int) -> Article:
    try:
        return Article.model_validate_json(value.content)
    except ValidationError as error:
        reason = json_reason(error)
        if reason is not None:
            raise document.mistake(value, reason) from error
        raise wrong_field(error, f"article {number}", from_json(value.content)) from error


def read_lines(path: Path) -> Iterator[Article]:
    """Yield the articles of a JSON Lines file; raises Mistake, which names the line."""
    with open_input(path) as file:
        yield from _grouped(_line_entries(file))


def read_rows(path: Path) -> Iterator[Article]:
    """Yield the articles of a Parquet file; raises Mistake, which names the row or the column."""
    with TemporaryFile() as unpacked:
        file: Path | IO[bytes] = path
        if not path.is_file() or path.suffix.lower() != ".parquet":  # compressed: not seekable
            with open_input(path) as packed:
                shutil.copyfileobj(packed, unpacked)
            file = unpacked
        try:
            yield from _grouped(_row_entries(file, path))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).partition("\n")[0]
            raise Mistake(f"not a whole Parquet file ({reason}); get it anew.") from error


def _line_entries(file: Iterable[bytes]) -> Iterator[Entry]:
    before = 0
    for number, line in enumerate(file, 1):
        if number == 1:
            refuse_wide_characters(line)
        content = line.rstrip().removeprefix(codecs.BOM_UTF8 if number == 1 else b"")
        if content:
            yield _entry(_parsed(content, number, before), f"line {number}")
        before += len(line)


def _parsed(line: bytes, number: int, before: int) -> Any:
    try:
        return from_json(line)
    except ValueError as error:
        reason = str(error).replace(" at line 1 ", f" at line {number} ")
        raise not_utf8(line, before) or not_json(reason) from error


def _row_entries(source: Path | IO[bytes], path: Path) -> Iterator[Entry]:
    with pq.ParquetFile(source) as file:
        there = file.schema_arrow.names
        missing = [name for name in REQUIRED if name not in there]
        if missing:
            raise Mistake(
                f'the column "{missing[0]}" is missing (found: {", ".join(there[:8])}); it takes '
                f"{', '.join(REQUIRED)}, and may have {' and '.join(OPTIONAL)}."
            )
        columns = [name for name in (*REQUIRED, *OPTIONAL) if name in there]
        number = 0
        for batch in row_batches(file, BATCH_ROWS, columns):
            for row in batch.to_pylist():
                number += 1
                yield _entry(row, f"row {number}")
            HOW_FAR.get()(path, number / file.metadata.num_rows)


def _entry(found: Any, place: str) -> Entry:
    if not isinstance(found, dict):
        raise Mistake(f"{place}: found {shown(found)}; it should be an object.")
    if "answers" in found:
        found["answers"] = _listed(found["answers"], place)
    kind = Article if "paragraphs" in found else FlatQuestion
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        raise wrong_field(error, place, found) from error


def _listed(answers: Any, place: str) -> Any:
    """Answers as a list of objects, converted if they are one object of lists; raises Mistake."""
    if not isinstance(answers, dict):
        return answers
    texts, starts = answers.get("text"), answers.get("answer_start")
    if not (isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts)):
        raise Mistake(
            f'{place}, field "answers": found {shown(answers)}; it should be a list of {{text, '
            "answer_start}, or hold a list of each, equally long."
        )
    return [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]


def _grouped(entries: Iterable[Entry]) -> Iterator[Article]:
    for _, neighbours in groupby(entries, _article_of):
        flat: list[FlatQuestion] = []
        for entry in neighbours:
            if isinstance(entry, Article):
                yield entry
            else:
                flat.append(entry)
        if flat:
            runs = groupby(flat, lambda question: question.context)
            paragraphs = [_paragraph(context, list(run)) for context, run in runs]
            yield Article(title=flat[0].title or "", paragraphs=paragraphs)


def _article_of(entry: Entry) -> tuple[str, str] | None:
    if isinstance(entry, Article):
        return None
    return ("title", entry.title) if entry.title else ("context", entry.context)


def _paragraph(context: str, questions: list[FlatQuestion]) -> Paragraph:
    return Paragraph(context=context, qas=[_question(flat) for flat in questions])


def _question(flat: FlatQuestion) -> Question:
    impossible = not flat.answers if flat.is_impossible is None else flat.is_impossible
    return Question(
        id=flat.id, question=flat.question, answers=flat.answers, is_impossible=impossible
    )


_READERS: dict[str, Callable[[Path], Iterator[Article]]] = {
    ".jsonl": read_lines,
    ".ndjson": read_lines,
    ".parquet": read_rows,
}
