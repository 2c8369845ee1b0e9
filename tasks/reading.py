"""Reads files of questions, an article at a time: SQuAD's JSON, JSON Lines, Parquet."""

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from tasks.errors import UserError
from tasks.flat import read_lines, read_rows
from tasks.inputs import inner_suffix, open_input
from tasks.json_stream import Document, Value, array_items
from tasks.mistakes import Mistake, json_reason, wrong_field
from tasks.squad import Article


def read_articles(path: Path) -> Iterator[Article]:
    """The articles of a file, read on as they are asked for; one is held at a time.

    The name's ending tells the format, also below .gz, .xz, .zst and in a zip: .jsonl and .ndjson
    are JSON Lines and .parquet is Parquet (both as `tasks.flat` says); anything else is SQuAD's
    JSON. Text is UTF-8, with or without a byte order mark.

    Raises UserError that names the file, the article, paragraph, question and field (or line, row,
    byte), and the mend: if the file can't be read, isn't of its format, lacks a field or has one
    of a wrong type.
    """
    try:
        yield from _READERS.get(inner_suffix(path), read_squad)(path)
    except Mistake as mistake:
        raise UserError(f"{path}: {_on_one_line(str(mistake))}") from mistake


def _on_one_line(sentence: str) -> str:
    """Without what a file's own text may bring into it: line ends, and codes for terminals."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(sentence.split()))


def read_squad(path: Path) -> Iterator[Article]:
    """The articles of a JSON file in SQuAD's own format; raises Mistake."""
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


_READERS: dict[str, Callable[[Path], Iterator[Article]]] = {
    ".jsonl": read_lines,
    ".ndjson": read_lines,
    ".parquet": read_rows,
}
