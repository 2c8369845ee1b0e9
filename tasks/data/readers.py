"""Reads question files: SQuAD's JSON, JSON Lines and Parquet.

A file is cut into shards of about 1 MB, which may be parsed on other machines.

JSON Lines have one question per line, Parquet one per row. Each question has an `id`, a `context`,
the `question` and its `answers`: a list of {text, answer_start}, or one object
{text: [ … ], answer_start: [ … ]}. `title` and `is_impossible` are optional; without
`is_impossible`, a question with an empty `answers` is unanswerable. Questions with the same title
form one article, in which those with the same context share one paragraph, wherever they are in the
file. Without titles, each context of consecutive questions is an article. A line may also hold a
whole article in SQuAD's own format.
"""

import codecs
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from infra.cluster.map_reduce import in_shards
from infra.errors import UserError, first_line
from infra.files import READ_PROGRESS, inner_suffix, open_input, open_parquet, row_batches
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
from tasks.data.json_stream import Document, RawValue, array_items
from tasks.data.row_order import article_order, in_order
from tasks.data.schema import Article, FlatQuestion, InvalidQuestion, Paragraph, Question

REQUIRED = ("id", "context", "question")
OPTIONAL = ("answers", "title", "is_impossible")  # without answers, each question is invalid

SHARD_BYTES = 1 << 20

PARQUET_MAGIC = b"PAR1"

# Added to the error of a file such as questions.csv.
OTHER_NAMES = (
    "A file is read as SQuAD's JSON unless its name ends in .jsonl, .ndjson or .parquet. Convert "
    "or rename the file."
)

# Values that replace invalid fields of a question.
_REPLACEMENTS: dict[int | str, Any] = {"question": "", "answers": [], "is_impossible": False}


class FlatEntry(NamedTuple):
    """A question with its context, and its article's title, "" if it has none."""

    title: str
    context: str
    question: Question

    @property
    def article(self) -> tuple[str, str]:
        """What consecutive entries of one article have in common."""
        return ("title", self.title) if self.title else ("context", self.context)


Entry = Article | FlatEntry


class Shard(NamedTuple):
    """Consecutive entries of a file, not parsed yet."""

    content: Sequence[Any]
    parse: Callable[[Any], Iterator[Entry]]
    share: float  # the share of the file, 0 to 1, that has been read at its end

    def entries(self) -> Iterator[Entry]:
        """Parse the entries, one after the other; raises FormatError."""
        return self.parse(self.content)


def read_articles(path: Path) -> Iterator[Article]:
    """Yield the articles of a file lazily; one of its shards is in memory at a time.

    The file name extension determines the format: .jsonl and .ndjson are JSON Lines, .parquet is
    Parquet, anything else is SQuAD's JSON. A compression suffix (.gz, .xz, .zst) is ignored, and
    the file may be a zip member. Text is UTF-8, with or without a byte order mark.

    A question with a missing or invalid field becomes an `InvalidQuestion`.

    Raises UserError if the file can't be read, doesn't match its format, or lacks a field that is
    not a question's, or a question's id, or has a wrong type there. The message names the file, the
    article, paragraph, question and field (or the line, row or byte), and how to fix it.
    """
    with naming(path):
        yield from group_entries(_entries(path))


def _entries(path: Path) -> Iterator[Entry]:
    for shard in read_shards(path):
        yield from shard.entries()
        READ_PROGRESS.get()(path, shard.share)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn an error of a file within the block into a UserError that names it, once."""
    try:
        yield
    except (FormatError, UserError) as error:
        if isinstance(error, UserError) and str(path) in str(error):
            raise
        raise UserError(f"{path}: {on_one_line(str(error))}") from error


def read_shards(path: Path) -> Iterator[Shard]:
    """Yield the shards of a file, in order.

    Raises FormatError if the file as a whole is malformed, and UserError if it can't be read, after
    the shards before that place. Errors within entries are found when these are parsed.
    """
    return _READERS.get(inner_suffix(path), _json_shards)(path)


@dataclass
class _ReadShare:
    """The share of a file that has been read, 0 to 1."""

    share: float = 0.0

    def __call__(self, path: Path, share: float) -> None:
        self.share = share


def _json_shards(path: Path) -> Iterator[Shard]:
    """The shards of a JSON file in SQuAD's own format, of whole articles."""
    with _json_input(path) as (file, read):
        document = Document(file)
        if document.peek() != "{":
            hint = "" if inner_suffix(path) == ".json" else f" {OTHER_NAMES}"
            if document.peek() == "[":
                hint = " Write a list of questions as JSON Lines (.jsonl), one per line."
            raise FormatError(
                f'the top level must be {{"data": [articles]}}, not {document.preview()}.{hint}'
            )
        articles = enumerate(array_items(document, "data"), 1)
        for shard in in_shards(articles, lambda article: len(article[1].content), SHARD_BYTES):
            yield Shard(shard, _articles, read.share)


@contextmanager
def _json_input(path: Path) -> Iterator[tuple[BufferedReader, _ReadShare]]:
    read = _ReadShare()
    with open_input(path, read) as file:
        refuse_other_formats(file.peek())
        yield file, read


def _articles(shard: Sequence[tuple[int, RawValue]]) -> Iterator[Article]:
    for number, article in shard:
        yield article.parsed(partial(_article, number))


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


def _line_shards(path: Path) -> Iterator[Shard]:
    """The shards of a JSON Lines file."""
    order = article_order(_line_records(path))
    with _json_input(path) as (file, read):
        lines = in_order(_numbered_lines(file), order, partial(read, path))
        for shard in in_shards(lines, lambda line: len(line[2]), SHARD_BYTES):
            yield Shard(shard, _line_entries, read.share)


def _line_records(path: Path) -> Iterator[Any]:
    """The value of each line, None if it is not valid JSON."""
    with _json_input(path) as (file, _):
        for number, _, line in _numbered_lines(file):
            record = None
            with suppress(ValueError):
                record = _tolerant_json(_content(number, line))
            yield record


def _numbered_lines(file: Iterable[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number of each line, from 1, how many bytes precede it, and the line."""
    before = 0
    for number, line in enumerate(file, 1):
        yield number, before, line
        before += len(line)


def _line_entries(shard: Sequence[tuple[int, int, bytes]]) -> Iterator[Entry]:
    """The entries of some lines; raises FormatError, which names the line."""
    for number, before, line in shard:
        if content := _content(number, line):
            yield _parse_entry(_parse_json(content, number, before), f"line {number}")


def _content(number: int, line: bytes) -> bytes:
    return line.rstrip().removeprefix(codecs.BOM_UTF8 if number == 1 else b"")


def _parse_json(line: bytes, number: int, before: int) -> Any:
    try:
        return _tolerant_json(line)
    except ValueError as error:
        reason = str(error).replace(" at line 1 ", f" at line {number} ")
        raise utf8_error(line, before) or json_error(reason) from error


def _parquet_shards(path: Path) -> Iterator[Shard]:
    """The shards of a Parquet file, of whole record batches."""
    with TemporaryFile() as unpacked:
        file: Path | IO[bytes] = path
        if not _is_parquet(path):  # compressed, or in a zip: not seekable
            with open_input(path) as packed:
                shutil.copyfileobj(packed, unpacked)
            file = unpacked
        with _complete_parquet(), open_parquet(file) as opened:
            order = article_order(_row_records(opened))
            read = _ReadShare()
            report = partial(read, path)
            batches = _numbered_batches(opened, 256 if order is None else 1, report)
            batches = in_order(batches, order, report)
            for shard in in_shards(batches, lambda batch: batch[1].nbytes, SHARD_BYTES):
                yield Shard(shard, _row_entries, read.share)


def _is_parquet(path: Path) -> bool:
    """Whether a file is Parquet as it is stored, by its first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


@contextmanager
def _complete_parquet() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = first_line(error)
        raise FormatError(f"not a complete Parquet file ({reason}); download it again.") from error


def _row_records(file: pq.ParquetFile) -> Iterator[Any]:
    """The title and context of each row; nothing if there are no titles."""
    columns = ["title", "context"]
    if set(columns) <= set(file.schema_arrow.names):
        for batch in row_batches(file, rows=256, columns=columns):
            yield from batch.to_pylist()


def _numbered_batches(
    file: pq.ParquetFile, size: int, report_share: Callable[[float], None]
) -> Iterator[tuple[int, Any]]:
    """Yield record batches of at most `size` rows, and the number of each one's first row, from
    1."""
    names = file.schema_arrow.names
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise FormatError(
            f'the column "{missing[0]}" is missing (found: {", ".join(names[:8])}). '
            f"Required: {', '.join(REQUIRED)}; optional: {', '.join(OPTIONAL)}."
        )
    columns = [name for name in (*REQUIRED, *OPTIONAL) if name in names]
    number = 1
    for batch in row_batches(file, rows=size, columns=columns):
        report_share((number + batch.num_rows - 1) / file.metadata.num_rows)
        yield number, batch
        number += batch.num_rows


def _row_entries(shard: Sequence[tuple[int, Any]]) -> Iterator[Entry]:
    """The entries of some record batches; raises FormatError, which names the row."""
    for first, batch in shard:
        with _complete_parquet():
            rows = batch.to_pylist()
        for number, row in enumerate(rows, first):
            yield _parse_entry(row, f"row {number}")


def _parse_entry(record: Any, place: str) -> Entry:
    if not isinstance(record, dict):
        raise FormatError(f"{place}: found {short_json(record)}; it should be an object.")
    if "answers" in record:
        record["answers"] = _answer_list(record["answers"])
    return (_validated_article if "paragraphs" in record else _flat)(record, place)


def _answer_list(answers: Any) -> Any:
    """Answers as a list of objects; an object of two equally long lists, or of one list of texts
    without their starts, is converted."""
    match answers:
        case {"text": [*texts], "answer_start": [*starts]} if len(texts) == len(starts):
            return [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
        case {"text": [*texts]} if answers.get("answer_start") is None:
            return [{"text": text} for text in texts]
    return answers


def _flat(record: Any, place: str) -> FlatEntry:
    try:
        flat = FlatQuestion.model_validate(record)
        impossible = not flat.answers if flat.is_impossible is None else flat.is_impossible
        fields = flat.model_dump(include={"id", "question"})
        question = Question(**fields, answers=flat.answers, is_impossible=impossible)
    except ValidationError as error:
        question = _invalid(record, _question_errors(error, 0, record, place), 0)
        flat = FlatQuestion.model_validate({**record, **_REPLACEMENTS})
    return FlatEntry(flat.title or "", flat.context, question)


def group_entries(entries: Iterable[Entry]) -> Iterator[Article]:
    """Yield the articles of consecutive entries, lazily."""
    for _, same_article in groupby(entries, _article_of):
        flat: list[FlatEntry] = []
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


def _article_of(entry: Entry) -> tuple[str, str] | None:
    return None if isinstance(entry, Article) else entry.article


_READERS: dict[str, Callable[[Path], Iterator[Shard]]] = {
    ".jsonl": _line_shards,
    ".ndjson": _line_shards,
    ".parquet": _parquet_shards,
}
