"""Encodes ingested splits as type ids, in Arrow files that training maps into memory."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.errors import UserError
from tasks.text.build_vocabulary import read_batches, text_columns, token_texts
from tasks.text.encoded import concatenated
from tasks.text.vocabulary import SPECIAL

if TYPE_CHECKING:
    Lists = pa.ListArray[pa.Int32Scalar]

_TOKENS = pa.list_(pa.int32())
CONTEXTS = pa.schema({"tokens": _TOKENS})
EXAMPLES = pa.schema(
    {
        "context": pa.int32(),
        "question": _TOKENS,
        "span_start": pa.int32(),
        "span_end": pa.int32(),
        "is_impossible": pa.bool_(),
    }
)
TARGETS = ["context_id", "span_start", "span_end", "is_impossible"]

TOKENS_PER_BATCH = 1 << 22
"""Type ids in a record batch, 16 MB. SQuAD's contexts have fewer, so they form one mapped array."""


def encode_split(out: Path, split: Path, vocabulary: Path) -> dict[str, Any]:
    """Write contexts.arrow and examples.arrow: an ingested split with its tokens as type ids.

    Both are uncompressed Arrow IPC files with rows in the split's order and record batches of about
    four million tokens, one of which is in memory at a time.

    Raises UserError if the vocabulary was built without this split.
    """
    forms = pq.read_table(vocabulary / "types.parquet", columns=["form"])["form"]
    known_forms: Any = forms.combine_chunks()[len(SPECIAL) :]
    contexts = _write(out / "contexts.arrow", CONTEXTS, _contexts(split, known_forms), "tokens")
    examples = _write(out / "examples.arrow", EXAMPLES, _examples(split, known_forms), "question")
    return {
        "contexts": contexts.rows,
        "questions": examples.rows,
        "context_tokens": contexts.tokens,
        "question_tokens": examples.tokens,
    }


def _contexts(split: Path, known_forms: pa.StringArray) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(split / "contexts.parquet", text_columns("text")):
        yield pa.record_batch([_token_ids(batch, "text", known_forms)], schema=CONTEXTS)


def _examples(split: Path, known_forms: pa.StringArray) -> Iterator[pa.RecordBatch]:
    columns = [*text_columns("question"), *TARGETS]
    for batch in read_batches(split / "questions.parquet", columns):
        context, start, end, impossible = (batch.column(name) for name in TARGETS)
        ids = _token_ids(batch, "question", known_forms)
        yield pa.record_batch([context, ids, start, end, impossible], schema=EXAMPLES)


def _token_ids(batch: pa.RecordBatch, column: str, known_forms: pa.StringArray) -> "Lists":
    """The tokens of each row as type ids, list<int32>; raises UserError for an unknown form."""
    texts = token_texts(batch, column)
    index = pc.index_in(texts, value_set=known_forms)
    if index.null_count:
        form = texts.filter(index.is_null())[0].as_py()
        raise UserError(
            f"The vocabulary lacks {form!r} because it was built without this split. Rebuild it "
            "with this split."
        )
    ids: Any = index.to_numpy() + np.int32(len(SPECIAL))
    lengths = pc.list_value_length(batch.column("token_starts")).to_numpy()
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(ids))


class _Counts(NamedTuple):
    rows: int
    tokens: int


def _write(
    file: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], column: str
) -> _Counts:
    """Write the batches as fewer, larger ones; `column` contains the tokens."""
    rows = tokens = 0
    with pa.ipc.new_file(str(file), schema) as writer:
        for batch in _joined(schema, batches, column):
            writer.write_batch(batch)
            rows += batch.num_rows
            tokens += _token_count(batch, column)
    return _Counts(rows, tokens)


def _joined(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], column: str
) -> Iterator[pa.RecordBatch]:
    """Yield batches of about `TOKENS_PER_BATCH` tokens, at least one of them."""
    waiting = [_empty(schema)]
    tokens = 0
    for batch in batches:
        if tokens >= TOKENS_PER_BATCH:
            yield concatenated(waiting)
            waiting, tokens = [], 0
        waiting.append(batch)
        tokens += _token_count(batch, column)
    yield concatenated(waiting)


def _token_count(batch: pa.RecordBatch, column: str) -> int:
    lists: Any = batch[column]
    return len(lists.values)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
