"""Loads encoded splits and vocabularies for training. Needs only torch, pyarrow and numpy."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from models.batching import Examples, Ragged, Types
from tasks.text.vocabulary import PADDING, SPECIAL, UNKNOWN, Lexicon


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


def load_types(vocabulary: Path, compose_oov: bool = False) -> Types:
    """The word and characters of each type, by type id. With `compose_oov`, the words in
    `oov_words` have rows after those of the vocabulary."""
    table = pq.read_table(vocabulary / "types.parquet", columns=["word", "characters"])
    words = table["word"].to_numpy()
    if compose_oov:
        words = np.array([PADDING, UNKNOWN, *_with_oov_rows(vocabulary)[0]], np.int32)
    return Types(words, _ragged(table["characters"]))


def oov_words(vocabulary: Path) -> list[str]:
    """The words of all types that the vocabulary lacks. Models that compose OOV words from n-grams
    have vectors of them."""
    return _with_oov_rows(vocabulary)[1]


def _with_oov_rows(vocabulary: Path) -> tuple[list[int], list[str]]:
    forms: Any = pq.read_table(vocabulary / "types.parquet", columns=["form"])["form"].to_pylist()
    return Lexicon.load(vocabulary).with_oov_rows(forms[len(SPECIAL) :])
