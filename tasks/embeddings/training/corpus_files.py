"""Streams the texts of a corpus from text files (also compressed), zips, folders and Parquet."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any

import pyarrow as pa

from infra.errors import UserError
from infra.files import (
    READ_PROGRESS,
    archive_of,
    files_below,
    inner_suffix,
    matches,
    members,
    open_input,
    open_parquet,
    row_batches,
    user_path,
)
from infra.run_logger import logger

# Bytes; longer lines are split at white space.
LONGEST_PIECE = 1 << 20
TEXT_NAMES = ".txt (may be compressed), .zip or .parquet"
_JSON = (
    "JSON, whose keys and braces would be learnt as words. If it is a dataset, move it from the "
    "corpus's `files` to its `dataset`."
)
_HTML = "HTML or XML, whose tags would be learnt as words. Extract its text."
_TABLE = (
    "a table, whose cells would be learnt as one text. Convert it to Parquet, and name the column "
    "of the texts: FILE.parquet#COLUMN."
)
# By the suffix of a file that is named itself; in a folder, others than TEXT_NAMES are skipped.
REFUSED = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), _JSON),
    **dict.fromkeys((".html", ".htm", ".xhtml", ".xml"), _HTML),
    **dict.fromkeys((".csv", ".tsv"), _TABLE),
}
_HTML_STARTS = (b"<!doctype html", b"<html", b"<?xml")


@dataclass(frozen=True)
class TextFile:
    """A text file, a zip, a member of a zip, or a Parquet file and the column of its texts."""

    path: Path
    column: str = "text"


def find_texts(spec: str) -> list[TextFile]:
    """The text files that `spec` names: a file, a zip, a folder, or a glob of these; no duplicates.

    A Parquet file's column follows a #, as in `pages.parquet#body`; it defaults to `text`.

    Raises:
        UserError: nothing has that name, it can't be read, a folder has no texts, or a file is
            JSON, HTML or a table, by its name.
    """
    name, column = split_column(spec)
    path = user_path(name)
    named = [path] if path.exists() or archive_of(path) else matches(path)
    if not named:
        raise UserError(
            f"Corpus {name} does not exist. Specify a text file, a folder, a zip of texts, or a "
            "glob."
        )
    files = dict.fromkeys(file for path in named for file in _texts_of(path))
    return [TextFile(file, column) for file in files]


def split_column(spec: str) -> tuple[str, str]:
    """The name of files, and the column of their texts if they are Parquet files."""
    stem, mark, column = spec.partition(".parquet#")
    return (f"{stem}.parquet", column or "text") if mark else (spec, "text")


def has_text_name(file: PurePath) -> bool:
    """Whether a file in a folder is one of texts, by its name."""
    return inner_suffix(file) == ".txt" or file.suffix.lower() in (".parquet", ".zip")


def _texts_of(path: Path) -> list[Path]:
    if path.is_dir():
        return _texts_below(path)
    if refusal := REFUSED.get(inner_suffix(path)):
        raise UserError(f"{path} is {refusal}")
    return [path]


def _texts_below(folder: Path) -> list[Path]:
    """The text files below a folder, without hidden ones. Logs how many others are ignored."""
    files = files_below(folder)
    texts = [file for file in files if has_text_name(file)]
    if not texts:
        found = f", not {files[0].name}" if files else ""
        raise UserError(
            f"{folder} contains no texts; expected {TEXT_NAMES} files{found}. Unpack archives, and "
            "save documents as text."
        )
    others = sorted(set(files).difference(texts))
    example = f" (for example {others[0].relative_to(folder)})" if others else ""
    logger().info(
        f"Corpus {folder}: reading {len(texts):,} files, skipping {len(others):,} others{example}."
    )
    return texts


def read_texts(file: TextFile) -> Iterator[str]:
    """Yield the paragraphs of a file: its lines (long ones in pieces), or the rows of its column.

    Raises:
        UserError: it can't be read, or is not UTF-8 text; names the file and the line.
    """
    suffix = file.path.suffix.lower()
    if suffix == ".parquet":
        yield from _read_column(file.path, file.column)
        return
    files = members(file.path) if suffix == ".zip" else [file.path]
    texts = [path for path in files if suffix != ".zip" or inner_suffix(path) == ".txt"]
    if not texts:
        raise UserError(f"{file.path} contains no .txt file. Add one, or choose another corpus.")
    for path in texts:
        with open_input(path) as stream:
            yield from _read_lines(path, stream)


def _read_column(file: Path, column: str) -> Iterator[str]:
    try:
        with open_parquet(file) as table:
            _require_strings(file, column, table.schema_arrow)
            read = 0
            for batch in row_batches(table, 1024, [column]):
                yield from filter(None, _column_texts(file, batch, read + 1))
                read += batch.num_rows
                READ_PROGRESS.get()(file, read / table.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{file} can't be read as Parquet: {error}. Write or download the file again."
        ) from error


def _column_texts(file: Path, batch: Any, first_row: int) -> list[str | None]:
    """The texts of a batch of a single column, whose first row has that number."""
    try:
        texts: list[str | None] = batch.column(0).to_pylist()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{file}: not UTF-8 ({error.reason}) in one of the rows {first_row:,} to "
            f"{first_row + batch.num_rows - 1:,}. Convert the texts to UTF-8."
        ) from error
    return texts


def _is_text(type_: Any) -> bool:
    values = type_.value_type if pa.types.is_dictionary(type_) else type_
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(values) for test in tests)


def _require_strings(file: Path, column: str, schema: pa.Schema) -> None:
    texts = [field.name for field in schema if _is_text(field.type)]
    if column not in texts:
        raise UserError(
            f"{file} has no text column {column!r}. Select one as {file.name}#COLUMN; text "
            f"columns: {', '.join(texts) or 'none'}."
        )


def _read_lines(file: Path, stream: IO[bytes]) -> Iterator[str]:
    for number, before, piece in _pieces(stream):
        at_start = number == 1 and not before
        if at_start and piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UserError(f"{file} is encoded in UTF-16. Convert it to UTF-8.")
        if at_start and piece.removeprefix(codecs.BOM_UTF8).lower().startswith(_HTML_STARTS):
            raise UserError(f"{file} is {_HTML}")
        if b"\0" in piece:
            raise UserError(
                f"{file}, line {number}: found a NUL byte, so this looks like a binary file. "
                "Remove it from the corpus."
            )
        try:
            yield piece.decode("utf-8-sig" if at_start else "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{file}, line {number}: not UTF-8 ({error.reason} at byte "
                f"{before + error.start}). Convert the file to UTF-8."
            ) from error


def _pieces(stream: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield lines, with long ones split into pieces: (line number, byte offset of the piece in the
    line, piece)."""
    number, before, rest = 1, 0, b""
    while block := rest + stream.readline(LONGEST_PIECE - len(rest)):
        if block.endswith(b"\n") or len(block) < LONGEST_PIECE:
            yield number, before, block
            number, before, rest = number + 1, 0, b""
        else:
            end = _end_of_piece(block)
            yield number, before, block[:end]
            before, rest = before + end, block[end:]


def _end_of_piece(block: bytes) -> int:
    """Where to split a long line: after its last white space, or if it has none, before the first
    byte of its last character."""
    after_space = 1 + max(block.rfind(space) for space in (b" ", b"\t", b"\r"))
    begins = (len(block) - back for back in range(1, 5) if block[-back] & 0xC0 != 0x80)
    return after_space or next(begins, len(block))
