"""Loads encoded splits and vocabularies for training. Needs only torch, pyarrow and numpy."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from models.batching import Examples, Ragged, Types

# Functions import models.batching where they need it: it loads torch, which takes seconds.


def _read(file: Path) -> pa.RecordBatch:
    """The rows of a file; a single record batch is memory-mapped, several are read into memory."""
    reader = pa.ipc.open_file(pa.memory_map(str(file)))
    batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    return batches[0] if len(batches) == 1 else concatenated(batches)


def _ragged(lists: Any) -> "Ragged":
    from models.batching import Ragged

    return Ragged(lists.values.to_numpy(), lists.offsets.to_numpy().astype(np.int64))


def load_encoded(folder: Path) -> "Examples":
    """The examples that `encode_split` wrote; token ids stay in the memory-mapped files."""
    from models.batching import Examples

    contexts, examples = _read(folder / "contexts.arrow"), _read(folder / "examples.arrow")
    return Examples(
        contexts=_ragged(contexts["tokens"]),
        questions=_ragged(examples["question"]),
        context_of=examples["context"].to_numpy(),
        span_start=examples["span_start"].to_numpy(),
        span_end=examples["span_end"].to_numpy(),
        impossible=examples["is_impossible"].to_numpy(zero_copy_only=False),
    )


def load_types(vocabulary: Path) -> "Types":
    """The word and characters of each type, by type id."""
    from models.batching import Types

    table = pq.read_table(vocabulary / "types.parquet", columns=["word", "characters"])
    return Types(table["word"].to_numpy(), _ragged(table["characters"].combine_chunks()))


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch from several with the same schema."""
    joined: pa.RecordBatch = pa.concat_batches(batches)  # type: ignore[attr-defined]
    return joined
