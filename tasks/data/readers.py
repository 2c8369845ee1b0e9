"""Reads question files of all formats that `tasks.data.importers` knows.

The content decides how a file is read, and the name only where the content is ambiguous. A file
consists of records: the items of a JSON array, the lines of JSON Lines, or the rows of a table
(CSV, TSV or Parquet). It is cut into shards of about 1 MB, which may be parsed on other machines.

Rows with the same title form one article, in which those with the same context share one paragraph,
wherever they are in the file. Without titles, each context of consecutive rows is an article.
"""

import codecs
import csv
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import pyarrow as pa
from pydantic import ValidationError
from pydantic_core import from_json

from infra.cluster.map_reduce import in_shards
from infra.errors import UserError, first_line
from infra.files import (
    READ_PROGRESS,
    ReportShare,
    inner_suffix,
    open_input,
    open_parquet,
    row_batches,
)
from tasks.data.entries import Entry, RecordParser
from tasks.data.format_errors import (
    FormatError,
    on_one_line,
    refuse_other_formats,
    utf8_error,
)
from tasks.data.importers.records import Counts
from tasks.data.importers.squad import MARKERS
from tasks.data.importers.table import (
    ACCEPTED,
    FIELDS,
    OPTIONAL,
    REQUIRED,
    ROWS,
    SQUAD,
    Importer,
    parse_columns,
    recognise,
    renamed,
)
from tasks.data.json_stream import Document, RawValue, array_items
from tasks.data.offsets import Convention, OffsetVote, placed
from tasks.data.row_order import article_order, in_order
from tasks.data.schema import Article, Paragraph

SHARD_BYTES = 1 << 20
PARQUET_MAGIC = b"PAR1"
# What `placed_entry` counts: answers that are moved, and those whose text the file lacks.
MOVED, SPANS = "Moved", "Spans"
LARGEST_CELL = 1 << 30  # characters of a cell of a CSV table

# The number of a record in its file, from 1, and its unparsed bytes, or the row of a table.
NumberedRecord = tuple[int, RawValue | dict[str, Any]]


@dataclass(frozen=True)
class Reading:
    """How to read a file: columns of the fields, how it counts offsets, and whether to keep what
    can't be trained on."""

    columns: str = ""  # see `parse_columns`
    convention: Convention | None = None
    keep_all: bool = False


class Shard(NamedTuple):
    """Consecutive records of a file, not parsed yet."""

    content: Sequence[NumberedRecord]
    importer: Importer
    place: str  # what a record is called in messages
    reading: Reading
    share: float  # the share of the file, 0 to 1, that has been read at its end

    def entries(self, counts: Counts | None = None) -> Iterator[Entry]:
        """The entries, with what is counted about them; raises FormatError."""
        counts = Counter() if counts is None else counts
        parser = RecordParser(self.importer, counts, self.reading.keep_all)
        columns = parse_columns(self.reading.columns)
        for number, record in self.content:
            counts[f"{self.importer.noun}s"] += 1
            place = f"{self.place} {number}"
            if not isinstance(record, RawValue):
                yield from parser.parse(renamed(record, columns), place)
            elif (article := self._valid_article(record)) is not None:
                yield Entry(article)
            else:
                yield from parser.parse(renamed(record.parsed(tolerant_json), columns), place)

    def _valid_article(self, record: RawValue) -> Article | None:
        """The article of a record that needs no change, as most do: this is much faster."""
        if self.importer is SQUAD and not any(marker in record.content for marker in MARKERS):
            with suppress(ValidationError):
                return Article.model_validate_json(record.content)
        return None


def tolerant_json(content: bytes) -> Any:
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


def read_articles(path: Path, reading: Reading = Reading()) -> Iterator[Article]:
    """Yield the articles of a file lazily; one of its shards is in memory at a time.

    A compression suffix (.gz, .xz, .zst) is ignored, and the file may be a zip member. Text is
    UTF-8, with or without a byte order mark. A question with a missing or invalid field becomes an
    `InvalidQuestion`.

    Raises UserError if the file can't be read, has no known format, or lacks a field that is not a
    question's, or has a wrong type there. The message names the file, the article, paragraph,
    question and field (or the line, row or byte), and how to fix it.
    """
    with naming(path):
        yield from group_entries(_entries(path, reading))


def _entries(path: Path, reading: Reading) -> Iterator[Entry]:
    for shard in read_shards(path, reading):
        for entry in shard.entries():
            yield placed_entry(entry, reading.convention, Counter())
        READ_PROGRESS.get()(path, shard.share)


def find_convention(path: Path, reading: Reading) -> Convention | None:
    """How a file counts offsets if it is in another way than ours; None: as we do, or unknown."""
    vote = OffsetVote()
    with naming(path):
        for shard in read_shards(path, reading):
            for entry in shard.entries():
                for context, question in entry.article.questions():
                    vote.add(context, [] if question.is_impossible else question.answers)
    return vote.winner()


def placed_entry(entry: Entry, convention: Convention | None, counts: Counts) -> Entry:
    """The entry with the starts of its answers in code points, and with their texts."""
    for context, question in entry.article.questions():
        for number, answer in enumerate(question.answers):
            question.answers[number] = placed(answer, context, convention)
            counts[SPANS] += not answer.text and answer.end is not None
            counts[MOVED] += question.answers[number].answer_start != answer.answer_start
    return entry


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn an error of a file within the block into a UserError that names it, once."""
    try:
        yield
    except (FormatError, UserError) as error:
        if isinstance(error, UserError) and str(path) in str(error):
            raise
        raise UserError(f"{path}: {on_one_line(str(error))}") from error


@dataclass
class _ReadShare:
    """The share of a file that has been read, 0 to 1."""

    share: float = 0.0

    def __call__(self, path: Path, share: float) -> None:
        self.share = share


def read_shards(path: Path, reading: Reading = Reading()) -> Iterator[Shard]:
    """Yield the shards of a file, in order.

    Raises FormatError if the file as a whole is malformed, and UserError if it can't be read, after
    the shards before that place. Errors within entries are found when these are parsed.
    """
    columns = parse_columns(reading.columns)
    read = _ReadShare()
    with _open_records(path, read) as (container, records):
        first = next(records, None)
        if first is None:
            return
        importer = _importer(container, renamed(_value(first[1]), columns))
        place = container if container in ("line", "row") else importer.noun
        order = None
        if importer is ROWS or (importer is SQUAD and container == "line"):
            with _open_records(path, lambda path, share: None) as (_, again):
                order = article_order(renamed(_value_or_none(r), columns) for _, r in again)
        ordered = in_order(chain([first], records), order, partial(read, path))
        for shard in in_shards(ordered, _size, SHARD_BYTES):
            yield Shard(shard, importer, place, reading, read.share)


def _size(record: NumberedRecord) -> int:
    """The characters of a record, approximately."""
    value = record[1]
    return len(value.content) if isinstance(value, RawValue) else len(str(value))


def _value(record: RawValue | dict[str, Any]) -> Any:
    return record.parsed(tolerant_json) if isinstance(record, RawValue) else record


def _value_or_none(record: RawValue | dict[str, Any]) -> Any:
    """The value of a record, None if it is not valid JSON."""
    with suppress(FormatError):
        return _value(record)
    return None


def _importer(container: str, first: Any) -> Importer:
    """How to read the records of a file with this first one.

    Raises FormatError if the format is not known. A record that has some of the fields is malformed
    instead, which is found when it is parsed.
    """
    if importer := recognise(first):
        return importer
    default = SQUAD if container == "article" else ROWS
    if not isinstance(first, dict) or (container == "article" and first.keys() <= {"title"}):
        return default
    if container == "row":
        missing = next(name for name in REQUIRED if name not in first)
        raise FormatError(
            f'the column "{missing}" is missing (found: {", ".join(map(str, [*first][:8]))}). '
            f"Required: {', '.join(REQUIRED)}; optional: {', '.join(OPTIONAL)}. Rename it, or set "
            f"data.columns, for example {missing}=COLUMN."
        )
    if first.keys() & {*FIELDS}:
        return default
    found = ", ".join(map(str, [*first][:8])) or "no fields"
    raise FormatError(f"the format is not known: the first record has {found}. {ACCEPTED}")


@contextmanager
def _open_records(
    path: Path, report: ReportShare
) -> Iterator[tuple[str, Iterator[NumberedRecord]]]:
    """What the records of a file are ("article", "item", "line" or "row"), and the records."""
    with open_input(path, report) as file:
        beginning = file.peek()
        suffix = inner_suffix(path)
        if beginning.startswith(PARQUET_MAGIC) or (
            suffix == ".parquet" and not beginning.lstrip().startswith((b"{", b"[", b"<"))
        ):
            with _parquet_rows(path, file, report) as rows:
                yield "row", rows
            return
        refuse_other_formats(beginning)
        text = beginning.removeprefix(codecs.BOM_UTF8).lstrip()
        if not text.startswith((b"{", b"[")) and _is_table(text, suffix):
            yield "row", _table_rows(file)
        elif _is_json_lines(text, suffix):
            yield "line", _lines(file)
        else:
            document = Document(file)
            container = "item" if document.peek() == "[" else "article"
            if document.peek() not in ("{", "["):
                raise FormatError(
                    f'the top level must be {{"data": [articles]}}, not {document.preview()}. '
                    f"{ACCEPTED}"
                )
            yield container, enumerate(array_items(document, "data"), 1)


def _is_table(beginning: bytes, suffix: str) -> bool:
    first, *_ = beginning.splitlines() or [b""]
    delimited = any(mark in first for mark in (b",", b"\t", b";"))
    return suffix in (".csv", ".tsv") or (
        delimited and suffix not in LINES and b"question" in first
    )


LINES = (".jsonl", ".ndjson")


def _is_json_lines(beginning: bytes, suffix: str) -> bool:
    """Whether an object is on the first line, and it is not the whole document, such as
    {"data": [ … ]}."""
    if beginning.startswith(b"["):
        return False
    first, _, rest = beginning.partition(b"\n")
    value = None
    with suppress(ValueError):
        value = tolerant_json(first)
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        return False
    if suffix in LINES:
        return first.strip() != b"{"
    if not rest.strip():
        return recognise(value) is not None
    return isinstance(value, dict) and rest.lstrip().startswith(b"{")


def _lines(file: Iterable[bytes]) -> Iterator[NumberedRecord]:
    """Yield the number of each line that is not blank, and its value."""
    before = 0
    for number, line in enumerate(file, 1):
        content = line.rstrip().removeprefix(codecs.BOM_UTF8 if number == 1 else b"")
        if content:
            yield number, RawValue(content, before, number, 1)
        before += len(line)


def _table_rows(file: BufferedReader) -> Iterator[NumberedRecord]:
    """Yield the number of each row below the header, and the row."""
    header = file.peek().removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0]
    delimiter = max(",\t;", key=lambda mark: header.count(mark.encode()))
    csv.field_size_limit(LARGEST_CELL)
    lines = csv.DictReader(_decoded(file), delimiter=delimiter)
    try:
        for number, row in enumerate(lines, 1):
            if None in row or None in row.values():
                raise FormatError(
                    f"row {number} has another number of cells than the header "
                    f"({len(lines.fieldnames or ())}). Quote cells that contain the delimiter."
                )
            yield number, row
    except csv.Error as error:
        raise FormatError(f"line {lines.line_num} is not valid CSV ({error}). Fix it.") from error


def _decoded(file: Iterable[bytes]) -> Iterator[str]:
    before = 0
    for line in file:
        if error := utf8_error(line, before):
            raise error
        yield line.decode("utf-8-sig" if not before else "utf-8", "replace")
        before += len(line)


@contextmanager
def _parquet_rows(
    path: Path, stream: BufferedReader, report: ReportShare
) -> Iterator[Iterator[NumberedRecord]]:
    with TemporaryFile() as unpacked:
        file: Path | IO[bytes] = path
        if not _is_parquet(path):  # compressed, or in a zip: not seekable
            shutil.copyfileobj(stream, unpacked)
            file = unpacked
        try:
            with open_parquet(file) as opened:
                yield _numbered_rows(path, opened, report)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FormatError(
                f"not a complete Parquet file ({first_line(error)}); download it again."
            ) from error


def _is_parquet(path: Path) -> bool:
    """Whether a file is Parquet as it is stored, by its first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def _numbered_rows(path: Path, file: Any, report: ReportShare) -> Iterator[NumberedRecord]:
    done = 0
    for batch in row_batches(file, rows=256):
        report(path, (done + batch.num_rows) / file.metadata.num_rows)
        yield from enumerate(batch.to_pylist(), done + 1)
        done += batch.num_rows


def group_entries(entries: Iterable[Entry]) -> Iterator[Article]:
    """Yield the articles of consecutive entries, lazily."""
    for group, run in groupby(entries, lambda entry: entry.group):
        if group is None:
            yield from (entry.article for entry in run)
            continue
        articles = [entry.article for entry in run]
        parts = [part for article in articles for part in article.paragraphs]
        paragraphs = [
            Paragraph(context=context, qas=[question for part in same for question in part.qas])
            for context, same in groupby(parts, lambda part: part.context)
        ]
        yield Article(title=articles[0].title, paragraphs=paragraphs)
