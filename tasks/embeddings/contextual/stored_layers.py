"""The layers of a split's contexts and questions, computed once and mapped into memory.

They are Arrow IPC in half precision. Trainings read a context once per question and epoch, so
computing its layers each time would take longer than the rest of a training step.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.filesize import decimal

from infra.artifacts.manifest import stages_folder
from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from infra.run_logger import logger
from infra.settings import settings
from models.arrays import Float32Array
from tasks.text.split_texts import TEXT_COLUMNS, read_texts

if TYPE_CHECKING:
    from models.token_layers import TokenLayers
    from tasks.embeddings.contextual.frozen_bilm import FrozenBiLM

# Modules that load torch are imported locally: flows import this file, and torch takes seconds.

LAYERS = "layers.arrow"
BYTES_PER_NUMBER = 2
# Layers in a record batch: large enough that a file has few of them.
BATCH_BYTES = 64 << 20


def write_layers(out: Path, split: Path, bilm: Path) -> dict[str, Any]:
    """Write the layers of each distinct text of an ingested split.

    layers.arrow has a row per distinct text; contexts.npy and questions.npy have the row of each
    context and question of the split. `bilm` is a folder of `select_bilm`.
    """
    from tasks.embeddings.contextual.frozen_bilm import FrozenBiLM

    model = FrozenBiLM.load(bilm).on_gpu()
    rows: dict[str, int] = {}
    with (
        ProgressReporter("contextual layers", _tokens(split), "words") as progress,
        _Writer(out / LAYERS, model, progress) as writer,
    ):
        for name in TEXT_COLUMNS:
            own_rows = []
            for text, words in read_texts(split / name):
                writer.read += len(words)
                if text not in rows:
                    rows[text] = len(rows)
                    writer.add(words)
                own_rows.append(rows[text])
            np.save(out / f"{Path(name).stem}.npy", np.array(own_rows, np.int32))
    return {"texts": len(rows), "tokens": writer.tokens, "bytes": (out / LAYERS).stat().st_size}


def _tokens(split: Path) -> int:
    """The tokens of all contexts and questions of a split."""
    tables: Any = (pq.read_table(split / name, columns=["token_starts"]) for name in TEXT_COLUMNS)
    return sum(len(table["token_starts"].combine_chunks().flatten()) for table in tables)


class _Writer:
    """Collects texts, computes their layers together, and writes a record batch."""

    def __init__(self, file: Path, model: "FrozenBiLM", progress: ProgressReporter) -> None:
        self.model, self.progress = model, progress
        self.shape = model.bilm.config.layers_shape
        layers: Any = pa.list_(pa.list_(pa.float16(), int(np.prod(self.shape))))
        self.schema = pa.schema({"layers": layers}).with_metadata({"shape": json.dumps(self.shape)})
        self.writer = pa.ipc.new_file(str(file), self.schema)
        self.waiting: list[list[str]] = []
        self.waiting_tokens = self.tokens = 0
        self.read = 0  # tokens of all texts so far, repeated ones included

    def __enter__(self) -> "_Writer":
        return self

    def add(self, words: list[str]) -> None:
        """Add a text."""
        self.waiting.append(words)
        self.waiting_tokens += len(words)
        if self.waiting_tokens * bytes_per_token(self.shape) >= BATCH_BYTES:
            self._write()

    def _write(self) -> None:
        texts = self.model.layers(self.waiting)
        self.tokens += self.waiting_tokens
        self.progress.report(self.read)
        self.writer.write_batch(_record_batch(texts, self.schema))
        self.waiting, self.waiting_tokens = [], 0

    def __exit__(self, *error: object) -> None:
        if error[0] is None and self.waiting:
            self._write()
        self.writer.close()


def _record_batch(texts: Sequence[Float32Array], schema: pa.Schema) -> pa.RecordBatch:
    row: Any = schema.field("layers").type
    numbers = np.concatenate([text.ravel() for text in texts]).astype(np.float16)
    tokens: Any = pa.FixedSizeListArray.from_arrays(
        pa.array(numbers, pa.float16()), row.value_type.list_size
    )
    offsets: Any = pa.array(np.cumsum([0, *map(len, texts)]), pa.int32())
    column: Any = pa.ListArray.from_arrays(offsets, tokens)
    return pa.record_batch([column], schema=schema)


@dataclass(frozen=True)
class SplitLayers:
    """The layers of a split's texts."""

    contexts: "TokenLayers"
    questions: "TokenLayers"


def load_layers(folder: Path) -> SplitLayers:
    """The layers that `write_layers` wrote; they stay in the memory-mapped file."""
    from models.token_layers import TokenLayers

    reader: Any = pa.ipc.open_file(pa.memory_map(str(folder / LAYERS)))
    shape = json.loads(reader.schema.metadata[b"shape"])
    chunks, firsts, tokens = [], [np.zeros(0, np.int64)], 0
    for number in range(reader.num_record_batches):
        lists = reader.get_batch(number).column("layers")
        chunks.append(lists.values.values.to_numpy().reshape(-1, *shape))
        firsts.append(tokens + lists.offsets.to_numpy()[:-1].astype(np.int64))
        tokens += len(chunks[-1])
    first = np.concatenate(firsts)
    contexts, questions = (
        TokenLayers(chunks, first[np.load(folder / f"{Path(name).stem}.npy")])
        for name in TEXT_COLUMNS
    )
    return SplitLayers(contexts, questions)


def bytes_per_token(shape: tuple[int, int]) -> int:
    """The size on disk of a token's layers, for their number and vector size."""
    return shape[0] * shape[1] * BYTES_PER_NUMBER


def require_space(tokens: int, shape: tuple[int, int], folder: Path) -> None:
    """Log how much space the layers of so many more tokens take on the disk of `folder`.

    Raises:
        UserError: that is more than the disk has left, or, with the layers that are stored already,
            than `layers_gb` allows.
    """
    needed = tokens * bytes_per_token(shape)
    free, limit = shutil.disk_usage(folder).free, settings().layers_gb
    message = f"Contextual layers of {tokens:,} tokens take up to {decimal(needed)} on disk"
    if needed > free:
        raise UserError(
            f"{message}, but only {decimal(free)} are free at {folder}. Free some space, for "
            "example by `bidaflow prune`, or use a smaller language model or less data."
        )
    stored = sum(file.stat().st_size for file in stages_folder().glob(f"*/[!.]*/{LAYERS}"))
    if stored + needed > limit * 1e9:
        raise UserError(
            f"{message}, and {decimal(stored)} are stored already, but BIDAFLOW_LAYERS_GB allows "
            f"{limit:g} GB. Remove unused layers by `bidaflow prune`, raise the limit, or use a "
            "smaller language model or less data."
        )
    logger().info(f"{message} (half precision).")
