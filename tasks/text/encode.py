"""Encodes ingested splits as type ids, in Arrow files that training maps into memory."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.errors import UserError
from tasks.text.build_vocabulary import TOKENS, read_batches, token_texts
from tasks.text.vocabulary import SPECIAL

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

# Type ids in a record batch, 16 MB. SQuAD's contexts have fewer, so they form one mapped array.
TOKENS_PER_BATCH = 1 << 22


def encode_split(out: Path, split: Path, vocabulary: Path) -> dict[str, Any]:
    """Write contexts.arrow and examples.arrow: an ingested split with its tokens as type ids.

    Both are uncompressed Arrow IPC files with rows in the split's order and record batches of about
    four million tokens, one of which is in memory at a time.

    Raises UserError if the vocabulary was built without this split.
    """
    forms = pq.read_table(vocabulary / "types.parquet", columns=["form"])["form"]
    known_forms: Any = forms.combine_chunks()[len(SPECIAL) :]
    contexts, context_tokens = _write(
        out / "contexts.arrow", CONTEXTS, _contexts(split, known_forms), "tokens"
    )
    questions, question_tokens = _write(
        out / "examples.arrow", EXAMPLES, _examples(split, known_forms), "question"
    )
    return {
        "contexts": contexts,
        "questions": questions,
        "context_tokens": context_tokens,
        "question_tokens": question_tokens,
    }


def _contexts(split: Path, known_forms: pa.StringArray) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(split / "contexts.parquet", ["text", *TOKENS]):
        yield pa.record_batch([_token_ids(batch, "text", known_forms)], schema=CONTEXTS)


def _examples(split: Path, known_forms: pa.StringArray) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(split / "questions.parquet", ["question", *TOKENS, *TARGETS]):
        context, *targets = (batch.column(name) for name in TARGETS)
        ids = _token_ids(batch, "question", known_forms)
        yield pa.record_batch([context, ids, *targets], schema=EXAMPLES)


def _token_ids(
    batch: pa.RecordBatch, column: str, known_forms: pa.StringArray
) -> "pa.ListArray[pa.Int32Scalar]":
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


def _write(
    file: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], column: str
) -> tuple[int, int]:
    """Write the batches as fewer, larger ones; returns how many rows and tokens they have.

    `column` contains the tokens.
    """
    rows = tokens = 0
    empty = pa.RecordBatch.from_pylist([], schema)
    with pa.ipc.new_file(str(file), schema) as writer:
        for group, group_tokens in _groups(batches, column):
            batch = pa.concat_batches([empty, *group])  # type: ignore[attr-defined]
            writer.write_batch(batch)
            rows += batch.num_rows
            tokens += group_tokens
    return rows, tokens


def _groups(batches: Iterable[Any], column: str) -> Iterator[tuple[list[Any], int]]:
    """Yield groups of batches with about `TOKENS_PER_BATCH` tokens, and how many they have."""
    group: list[Any] = []
    tokens = 0
    for batch in batches:
        if tokens >= TOKENS_PER_BATCH:
            yield group, tokens
            group, tokens = [], 0
        group.append(batch)
        tokens += len(batch[column].values)
    yield group, tokens
