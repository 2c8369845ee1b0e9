"""Loads encoded splits and vocabularies for training. Needs only torch, pyarrow and numpy."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.batching import Examples, Ragged, Types


def _read(file: Path) -> dict[str, Any]:
    """The columns of a file; a single record batch is memory-mapped, several are joined."""
    table = pa.ipc.open_file(pa.memory_map(str(file))).read_all().combine_chunks()
    return {name: table[name].chunk(0) for name in table.column_names}


def _ragged(lists: Any) -> Ragged:
    return Ragged(lists.values.to_numpy(), lists.offsets.to_numpy().astype(np.int64))


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
    return Types(table["word"].to_numpy(), _ragged(table["characters"].combine_chunks()))
