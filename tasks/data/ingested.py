"""Ingested files as the input of splits: read batch by batch, by context and by article."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infra.parquet import row_batches

BATCH_ROWS = 4096


@dataclass(frozen=True)
class Portion:
    """An ingested file, and how often each of its questions occurs in an epoch."""

    folder: Path
    name: str
    weight: float = 1.0
    divided: bool = True  # among train, validation and dev; otherwise all articles are in train


def normalized(text: str) -> str:
    """The text with single spaces and folded case, for comparison."""
    return " ".join(text.split()).casefold()


def fingerprint(text: str) -> bytes | None:
    """The 16-byte digest of the normalised text; None for an empty one, which matches no other."""
    plain = normalized(text)
    return blake2b(plain.encode(errors="surrogatepass"), digest_size=16).digest() if plain else None


def batches(path: Path, columns: list[str] | None = None) -> Iterator[Any]:
    """Yield the record batches of a Parquet file, optionally of some columns only."""
    with pq.ParquetFile(path) as file:
        yield from row_batches(file, BATCH_ROWS, columns)


def paired_batches(path: Path, other: Path) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of equally long batches of two files whose rows correspond.

    The row groups of the two files may differ.
    """
    reader, buffer = batches(other), None
    for batch in batches(path):
        while buffer is None or buffer.num_rows < batch.num_rows:
            more = pa.Table.from_batches([next(reader)])
            buffer = more if buffer is None else pa.concat_tables([buffer, more])
        (other_batch,) = buffer.slice(0, batch.num_rows).combine_chunks().to_batches()
        buffer = buffer.slice(batch.num_rows)
        yield batch, other_batch


def with_column(batch: Any, column: str, values: Any) -> Any:
    """A record batch with the values of one column replaced."""
    index = batch.schema.get_field_index(column)
    field = batch.schema.field(index)
    return batch.set_column(index, field, pa.array(values, field.type))


class Contexts:
    """A portion's contexts: their fingerprints, and which of them are kept."""

    def __init__(self, portion: Portion) -> None:
        self.portion = portion
        self.fingerprints: list[bytes | None] = []
        self.articles: list[str] = []
        """A key for each article: its title and the fingerprint of its first context."""
        numbers: list[int] = []
        for number, title, text in _rows(portion.folder):
            if not numbers or number != numbers[-1]:
                self.articles.append(f"{title}\n{(fingerprint(text) or b'').hex()}")
            numbers.append(number)
            self.fingerprints.append(fingerprint(text))
        self._sizes = [len(list(group)) for _, group in groupby(numbers)]
        self._ends = np.cumsum(self._sizes)
        self.keep = np.ones(len(numbers), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.fingerprints)

    def text(self, row: int) -> str:
        """The text of the context in a row."""
        column: Any = pq.read_table(self.portion.folder / "contexts.parquet", columns=["text"])
        return str(column["text"][row].as_py())

    def article_of(self, row: int) -> tuple[int, int]:
        """The contexts [first, last) of the article that contains context `row`."""
        article = int(np.searchsorted(self._ends, row, side="right"))
        return int(self._ends[article]) - self._sizes[article], int(self._ends[article])

    def keep_articles(self, flags: Sequence[bool]) -> None:
        """Keep only the contexts of some articles; `flags` has one flag for each article."""
        self.keep &= np.repeat(np.asarray(flags, dtype=np.bool_), self._sizes)

    def leave_out(self, known: set[bytes]) -> int:
        """Leave out contexts with a known fingerprint; returns how many were newly left out."""
        before = int(self.keep.sum())
        self.keep &= np.array([digest not in known for digest in self.fingerprints], dtype=np.bool_)
        return before - int(self.keep.sum())


def _rows(folder: Path) -> Iterator[tuple[int, str, str]]:
    columns = ["article", "title", "text"]
    for batch in batches(folder / "contexts.parquet", columns):
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
