"""Ingested splits as type ids in Arrow files that are memory-mapped for training."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.errors import UserError
from tasks.lexicon import SPECIAL
from tasks.vectors import read_vectors
from tasks.vocabulary import read_batches, text_columns, token_texts

if TYPE_CHECKING:
    from models.batching import Examples, Ragged, Types

    Lists = pa.ListArray[pa.Int32Scalar]

TARGETS = ["context_id", "span_start", "span_end", "is_impossible"]


def encode_split(out: Path, split: Path, vocabulary: Path) -> dict[str, Any]:
    """Write contexts.arrow and examples.arrow: an ingested split with its tokens as type ids.

    Both are uncompressed Arrow IPC files of one record batch, rows in the split's order. Only the
    ids are held in memory. Raises UserError if the vocabulary was built without this split.
    """
    forms = pq.read_table(vocabulary / "types.parquet", columns=["form"])["form"]
    known: Any = forms.combine_chunks()[len(SPECIAL) :]
    contexts = _token_ids(split / "contexts.parquet", "text", known)
    questions = _token_ids(split / "questions.parquet", "question", known)
    targets = pq.read_table(split / "questions.parquet", columns=TARGETS).combine_chunks()
    context_of, start, end, impossible = (targets[name].combine_chunks() for name in TARGETS)
    _write(out / "contexts.arrow", {"tokens": contexts})
    _write(
        out / "examples.arrow",
        {
            "context": context_of,
            "question": questions,
            "span_start": start,
            "span_end": end,
            "is_impossible": impossible,
        },
    )
    return {
        "contexts": len(contexts),
        "questions": len(questions),
        "context_tokens": len(contexts.values),
        "question_tokens": len(questions.values),
    }


def _token_ids(file: Path, column: str, known: pa.StringArray) -> "Lists":
    """Each row's tokens as type ids, list<int32>."""
    batches = read_batches(file, text_columns(column))
    parts = [_batch_ids(batch, column, known) for batch in batches]
    ids = np.concatenate([np.empty(0, np.int32), *(ids for ids, _ in parts)])
    lengths = np.concatenate([np.empty(0, np.int64), *(lengths for _, lengths in parts)])
    offsets = pa.array(np.append(0, np.cumsum(lengths))).cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(ids))


def _batch_ids(
    batch: pa.RecordBatch, column: str, known: pa.StringArray
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """A batch's type ids, row after row, and each row's number of tokens."""
    texts = token_texts(batch, column)
    found = pc.index_in(texts, value_set=known)
    if found.null_count:
        form = texts.filter(found.is_null())[0].as_py()
        raise UserError(
            f"The vocabulary was built without this split: it lacks {form!r}; build it again."
        )
    ids = found.to_numpy() + np.int32(len(SPECIAL))
    return ids, pc.list_value_length(batch.column("token_starts")).to_numpy().astype(np.int64)


def _write(file: Path, columns: dict[str, Any]) -> None:
    batch = pa.record_batch(columns)
    with pa.ipc.new_file(str(file), batch.schema) as writer:
        writer.write_batch(batch)


def _read(file: Path) -> pa.RecordBatch:
    """The file's record batch, mapped into memory rather than read."""
    return pa.ipc.open_file(pa.memory_map(str(file))).get_batch(0)


def _ragged(lists: Any) -> "Ragged":
    from models.batching import Ragged

    return Ragged(lists.values.to_numpy(), lists.offsets.to_numpy().astype(np.int64))


def load_encoded(folder: Path) -> "Examples":
    """The examples of `encode_split`. Token ids stay in the mapped files."""
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
    """Each type's word and characters, by type id."""
    from models.batching import Types

    table = pq.read_table(vocabulary / "types.parquet", columns=["word", "characters"])
    return Types(table["word"].to_numpy(), _ragged(table["characters"].combine_chunks()))


def load_word_vectors(vocabulary: Path, vectors: Path) -> npt.NDArray[np.float32]:
    """One vector per row of words.parquet (V, d): zero for rows 0 and 1 and unknown words."""
    words = pq.read_table(vocabulary / "words.parquet", columns=["word"])["word"]
    known, rows = read_vectors(vectors)
    found = pc.index_in(words.combine_chunks()[len(SPECIAL) :], value_set=known)
    matrix = np.zeros((len(words), rows.shape[1]), dtype=np.float32)
    index = np.flatnonzero(found.is_valid().to_numpy(False))
    matrix[index + len(SPECIAL)] = rows[found.drop_null().to_numpy()]
    return matrix
