"""The texts of ingested splits: their tokens, and the counts of distinct forms, by map-reduce."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.cluster.map_reduce import in_shards, map_on_cluster
from infra.files import row_batches
from infra.reporting.progress_reporter import ProgressReporter
from tasks.text.vocabulary import lookup_keys

# The files of an ingested split that contain texts, and the text column of each.
TEXT_COLUMNS = {"contexts.parquet": "text", "questions.parquet": "question"}

# The columns that `token_texts` needs besides the one with the texts.
TOKENS = ["token_starts", "token_ends"]

_FORM_COUNTS: dict[str, pa.DataType] = {"form": pa.string(), "count": pa.int64()}
FORM_COUNTS = pa.schema(_FORM_COUNTS)
SHARD_BYTES = 4 << 20
MERGE_ROWS = 200_000


def read_batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a Parquet file, 1024 rows at a time.

    These are about 1 MB of Wikipedia paragraphs.
    """
    with pq.ParquetFile(path) as file:
        yield from row_batches(file, 1024, columns)


def read_shards(path: Path, columns: list[str]) -> Iterator[list[pa.RecordBatch]]:
    """Yield `read_batches` in lists of about `SHARD_BYTES`, to be processed separately."""
    return in_shards(read_batches(path, columns), lambda batch: batch.nbytes, SHARD_BYTES)


def read_texts(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each text of a split's file (see `TEXT_COLUMNS`), and its tokens."""
    column = TEXT_COLUMNS[file.name]
    for batch in read_batches(file, [column, *TOKENS]):
        columns = (batch.column(name).to_pylist() for name in (column, *TOKENS))
        for text, starts, ends in zip(*columns, strict=True):
            yield text, [text[start:end] for start, end in zip(starts, ends, strict=True)]


def token_texts(batch: pa.RecordBatch, column: str) -> pa.StringArray:
    """The text of every token, row after row.

    The stored offsets count code points. To avoid a Python string for each token, they are
    converted to byte offsets through the start bytes of all code points in the joined texts.
    """
    columns: Any = (batch.column(name) for name in (column, *TOKENS))
    texts, token_starts, token_ends = columns
    data = np.frombuffer("".join(texts.to_pylist()).encode(), dtype=np.uint8)
    position = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    lengths = pc.utf8_length(texts).to_numpy()
    tokens = pc.list_value_length(token_starts).to_numpy()
    row_start = np.repeat(np.cumsum(lengths, dtype=np.int64) - lengths, tokens)
    starts = position[row_start + token_starts.flatten().to_numpy()]
    return _slices(data, starts, position[row_start + token_ends.flatten().to_numpy()])


def _slices(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.intp], ends: npt.NDArray[np.intp]
) -> pa.StringArray:
    """data[start:end] for every start and end, as strings."""
    offsets = np.append(0, np.cumsum(ends - starts))
    source = np.repeat(starts - offsets[:-1], ends - starts) + np.arange(offsets[-1])
    return pa.StringArray.from_buffers(
        len(starts), pa.py_buffer(offsets.astype(np.int32).data), pa.py_buffer(data[source].data)
    )


def count_batch(batch: pa.RecordBatch, column: str) -> pa.Table:
    """Map step: the distinct token texts of a batch, as a (form, count) table."""
    counted = pc.value_counts(token_texts(batch, column))
    return pa.Table.from_struct_array(counted).rename_columns(["form", "count"])


def merge_counts(tables: Iterable[pa.Table]) -> pa.Table:
    """Reduce step, associative: the sum of several (form, count) tables, sorted by form."""
    joined = pa.concat_tables([FORM_COUNTS.empty_table(), *tables])
    summed = joined.group_by("form").aggregate([("count", "sum")])
    return summed.rename_columns(["form", "count"]).sort_by("form")


def sum_counts(tables: Iterable[pa.Table]) -> pa.Table:
    """`merge_counts` of any number of tables.

    Tables are merged once they have more rows than the running total (and more than
    `MERGE_ROWS`), so memory grows with the number of distinct forms, not with the texts.
    """
    total, waiting = merge_counts([]), []
    for table in tables:
        waiting.append(table)
        if sum(part.num_rows for part in waiting) > max(MERGE_ROWS, total.num_rows):
            total, waiting = merge_counts([total, *waiting]), []
    return merge_counts([total, *waiting])


def count_shard(batches: Sequence[pa.RecordBatch]) -> tuple[int, pa.Table]:
    """The number of texts of some record batches, and `sum_counts` of their tokens.

    The texts are in the first column.
    """
    column = batches[0].schema.names[0]
    counts = sum_counts(count_batch(batch, column) for batch in batches)
    return sum(batch.num_rows for batch in batches), counts


def distinct_forms(splits: Sequence[Path]) -> pa.Table:
    """The (form, count) table of all tokens in the questions and contexts of ingested splits.

    A context counts once, however many questions it has. Shards are counted on all nodes of the
    cluster, if there is one.
    """
    files = [(split / name, column) for split in splits for name, column in TEXT_COLUMNS.items()]
    texts = sum(pq.read_metadata(file).num_rows for file, _ in files)
    shards = (shard for file, column in files for shard in read_shards(file, [column, *TOKENS]))

    def counted() -> Iterator[pa.Table]:
        done = 0
        for rows, table in map_on_cluster(count_shard, shards):
            yield table
            done += rows
            progress.report(done)

    with ProgressReporter("counting words", texts, "texts") as progress:
        return sum_counts(counted())


def wanted_words(splits: Sequence[Path], lower_case: bool) -> set[str]:
    """All words under which the forms of these splits may be looked up."""
    forms: Any = distinct_forms(splits)["form"].to_pylist()
    return {key for form in forms for key in lookup_keys(form, lower_case)}


def form_counts(splits: Sequence[Path]) -> dict[str, int]:
    """`distinct_forms` as a dict, by descending count, then by form."""
    table: Any = distinct_forms(splits).sort_by([("count", "descending"), ("form", "ascending")])
    return dict(zip(table["form"].to_pylist(), table["count"].to_pylist(), strict=True))
