"""Encodes ingested splits as type ids, in Arrow files that training maps into memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.cluster.map_reduce import map_on_cluster
from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from tasks.text.split_texts import TOKENS, read_shards, token_texts
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
    four million tokens, one of which is in memory at a time. Shards are encoded on all nodes of the
    cluster, if there is one.

    Raises UserError if the vocabulary was built without this split.
    """
    forms = pq.read_table(vocabulary / "types.parquet", columns=["form"])["form"]
    known_forms: Any = forms.combine_chunks()[len(SPECIAL) :]
    encoded = _encoded(
        split / "contexts.parquet",
        ["text", *TOKENS],
        partial(_encode_contexts, known_forms=known_forms),
    )
    contexts, context_tokens = _write(out / "contexts.arrow", CONTEXTS, encoded, "tokens")
    encoded = _encoded(
        split / "questions.parquet",
        ["question", *TOKENS, *TARGETS],
        partial(_encode_examples, known_forms=known_forms),
    )
    questions, question_tokens = _write(out / "examples.arrow", EXAMPLES, encoded, "question")
    return {
        "contexts": contexts,
        "questions": questions,
        "context_tokens": context_tokens,
        "question_tokens": question_tokens,
    }


def _encoded(
    file: Path,
    columns: list[str],
    encode: Callable[[Sequence[pa.RecordBatch]], list[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Yield the encoded record batches of a file, and report the progress."""
    texts = pq.read_metadata(file).num_rows
    with ProgressReporter(f"encoding {file.stem}", texts, "texts") as progress:
        done = 0
        for batches in map_on_cluster(encode, read_shards(file, columns)):
            yield from batches
            done += sum(batch.num_rows for batch in batches)
            progress.report(done)


def _encode_contexts(
    batches: Sequence[pa.RecordBatch], known_forms: pa.StringArray
) -> list[pa.RecordBatch]:
    ids = _token_ids(batches, "text", known_forms)
    return [pa.record_batch([tokens], schema=CONTEXTS) for tokens in ids]


def _encode_examples(
    batches: Sequence[pa.RecordBatch], known_forms: pa.StringArray
) -> list[pa.RecordBatch]:
    ids = _token_ids(batches, "question", known_forms)
    examples = []
    for batch, tokens in zip(batches, ids, strict=True):
        context, *targets = (batch.column(name) for name in TARGETS)
        examples.append(pa.record_batch([context, tokens, *targets], schema=EXAMPLES))
    return examples


def _token_ids(
    batches: Sequence[pa.RecordBatch], column: str, known_forms: pa.StringArray
) -> list["pa.ListArray[pa.Int32Scalar]"]:
    """The tokens of each batch's rows as type ids, list<int32>.

    All batches are looked up at once, because that indexes the known forms. Raises UserError for an
    unknown form.
    """
    texts: Any = pa.concat_arrays([token_texts(batch, column) for batch in batches])
    index = pc.index_in(texts, value_set=known_forms)
    if index.null_count:
        form = texts.filter(index.is_null())[0].as_py()
        raise UserError(
            f"The vocabulary lacks {form!r} because it was built without this split. Rebuild it "
            "with this split."
        )
    ids: Any = index.to_numpy() + np.int32(len(SPECIAL))
    lists, end = [], 0
    for batch in batches:
        lengths = pc.list_value_length(batch.column("token_starts")).to_numpy()
        offsets = np.append(0, np.cumsum(lengths, dtype=np.int32))
        begin, end = end, end + offsets[-1]
        lists.append(pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids[begin:end])))
    return lists


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
