"""The tables of ingested files and splits: their schemas, and how to write and read them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infra.parquet import row_batches

Columns = dict[str, pa.DataType]

_ANSWER = pa.struct([("text", pa.string()), ("start", pa.int32())])
_OFFSETS: Columns = {"token_starts": pa.list_(pa.int32()), "token_ends": pa.list_(pa.int32())}
_TABLES: dict[str, Columns] = {
    "contexts": {
        "context_id": pa.int32(),
        "article": pa.int32(),
        "title": pa.string(),
        "text": pa.string(),
        **_OFFSETS,
    },
    "questions": {
        "id": pa.string(),
        "context_id": pa.int32(),
        "question": pa.string(),
        **_OFFSETS,
        "answers": pa.list_(_ANSWER),
        "is_impossible": pa.bool_(),
        "span_start": pa.int32(),
        "span_end": pa.int32(),
    },
    "alignment": {  # the ledger: its rows correspond to those of the questions
        "id": pa.string(),
        "outcome": pa.string(),
        "fault": pa.string(),  # an `AnswerErrorKind`, or null
        "reason": pa.string(),
        "gold": pa.string(),
        "gold_start": pa.int32(),
        "repaired": pa.string(),  # null unless the outcome is "repaired"; so is repaired_start
        "repaired_start": pa.int32(),
        "span": pa.string(),
        "em": pa.float32(),
        "f1": pa.float32(),
    },
}

# The schemas of the three files of an ingested file or split.
TABLES = {name: pa.schema(columns) for name, columns in _TABLES.items()}

BATCH_ROWS = 4096


@dataclass(frozen=True)
class Portion:
    """An ingested file, and how often each of its questions occurs in an epoch."""

    folder: Path
    name: str
    weight: float = 1.0
    divided: bool = True  # among train, validation and dev; otherwise all articles are in train


@contextmanager
def table_writers(
    folder: Path, schemas: Mapping[str, pa.Schema]
) -> Iterator[dict[str, pq.ParquetWriter]]:
    """Writers of the Parquet files of a folder, one for each schema, by its name."""
    with ExitStack() as closing:
        yield {
            name: closing.enter_context(
                pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd")
            )
            for name, schema in schemas.items()
        }


def batches(path: Path, columns: list[str] | None = None) -> Iterator[Any]:
    """Yield the record batches of a Parquet file, optionally of some columns only."""
    with pq.ParquetFile(path) as file:
        yield from row_batches(file, BATCH_ROWS, columns)


def questions_with_ledger(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the batches of a folder's questions, each with the batch of their ledger rows.

    The two files have equal row groups: both are written in the same batches.
    """
    return zip(
        batches(folder / "questions.parquet"), batches(folder / "alignment.parquet"), strict=True
    )


def with_columns(batch: Any, columns: Mapping[str, Any]) -> Any:
    """A record batch with the values of some columns replaced."""
    for name, values in columns.items():
        index = batch.schema.get_field_index(name)
        field = batch.schema.field(index)
        batch = batch.set_column(index, field, pa.array(values, field.type))
    return batch


def normalized(text: str) -> str:
    """The text with single spaces and folded case, for comparison."""
    return " ".join(text.split()).casefold()


def fingerprint(text: str) -> bytes | None:
    """The 16-byte digest of the normalised text; None for an empty one, which matches no other."""
    plain = normalized(text)
    return blake2b(plain.encode(errors="surrogatepass"), digest_size=16).digest() if plain else None


class Contexts:
    """A portion's contexts: their articles and fingerprints, and which of them are kept."""

    def __init__(self, portion: Portion) -> None:
        self.portion = portion
        self.fingerprints: list[bytes | None] = []
        # A key for each article: its title and the fingerprint of its first context.
        self.articles: list[str] = []
        sizes = []
        for title, texts in self.by_article():
            digests = [fingerprint(text) for text in texts]
            self.articles.append(f"{title}\n{(digests[0] or b'').hex()}")
            self.fingerprints += digests
            sizes.append(len(texts))
        # The position of each context's article in `articles`.
        self.article_of = np.repeat(np.arange(len(sizes)), sizes)
        self.keep = np.ones(len(self.fingerprints), dtype=np.bool_)

    def by_article(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the title and the texts of each article's contexts; reads one at a time."""
        columns = ["article", "title", "text"]
        rows = (
            row
            for batch in batches(self.portion.folder / "contexts.parquet", columns)
            for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        )
        for (_, title), article in groupby(rows, itemgetter(0, 1)):
            yield title, [text for *_, text in article]

    def leave_out(self, known: set[bytes]) -> int:
        """Leave out contexts with a known fingerprint; returns how many were newly left out."""
        before = int(self.keep.sum())
        self.keep &= np.array([digest not in known for digest in self.fingerprints], dtype=np.bool_)
        return before - int(self.keep.sum())
