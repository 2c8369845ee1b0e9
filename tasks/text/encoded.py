"""Loads encoded splits and vocabularies for training. Needs only torch, pyarrow and numpy."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from models.batching import Examples, Ragged, Types


def _read(file: Path) -> dict[str, Any]:
    """The columns of a memory-mapped file, with a chunk for each record batch."""
    table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    return {name: table[name] for name in table.column_names}


def _ragged(lists: Any) -> Ragged:
    """The rows of all chunks; the values of a single chunk stay in the file, several are joined.

    Arrow would join at most 2**31 values.
    """
    values = [chunk.flatten().to_numpy() for chunk in lists.chunks]
    ends = pc.list_value_length(lists).to_numpy().cumsum(dtype=np.int64)
    return Ragged(values[0] if len(values) == 1 else np.concatenate(values), np.append(0, ends))


def load_encoded(folder: Path) -> Examples:
    """The examples that `encode_split` wrote; token ids stay in the memory-mapped files."""
    contexts, examples = _read(folder / "contexts.arrow"), _read(folder / "examples.arrow")
    return Examples(
        contexts=_ragged(contexts["tokens"]),
        questions=_ragged(examples["question"]),
        context_of=examples["context"].to_numpy(),
        span_start=examples["span_start"].to_numpy(),
        span_end=examples["span_end"].to_numpy(),
        impossible=examples["is_impossible"].to_numpy(zero_copy_only=False),
    )


def load_types(vocabulary: Path) -> Types:
    """The word and characters of each type, by type id."""
    table = pq.read_table(vocabulary / "types.parquet", columns=["word", "characters"])
    return Types(table["word"].to_numpy(), _ragged(table["characters"]))
