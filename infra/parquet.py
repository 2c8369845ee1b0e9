"""Reads Parquet files some rows at a time, in as much memory for large files as for small ones."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.parquet as pq


def row_batches(
    file: pq.ParquetFile,
    rows: int,
    columns: list[str] | None = None,
    row_groups: Iterable[int] | None = None,
) -> Iterator[Any]:
    """Record batches of at most so many rows, of all row groups or of some.

    Each row group is asked for by itself: of several, pyarrow 25 keeps some 0.6 MB of each one it
    has read until the last is done.
    """
    for group in range(file.num_row_groups) if row_groups is None else row_groups:
        yield from file.iter_batches(rows, row_groups=[group], columns=columns)
