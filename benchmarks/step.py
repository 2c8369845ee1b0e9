"""Times a training step and inference next to two plain implementations of the same model.

Usage: python -m benchmarks.step [--dataset squad-v1.1-recovered] [--steps 8] [--out FILE.json]

All train the same preset (`char`, d = 100) on 4,096 examples drawn from the dataset, one after the
other: ours (batches of similar lengths, padded LSTMs, characters once per distinct word) with
products in bfloat16 and in float32, and `benchmarks.common.references` padded and packed (batches
in random order, characters of every token, float32). Ours runs all 64 batches; the references run
the first `--steps` of their random ones. Each starts with one step that is not timed. All compute
answers in float32: the forward pass for one question on a context of 130 tokens, and for batches of
128, on the questions of dev.
"""

import flows  # noqa: F401  (sets Prefect's environment, before it is imported)

# isort: split
import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from prefect import flow
from torch import nn

from benchmarks.common.machine import machine, print_result, today, use_worker_allocator
from benchmarks.common.references import ReferenceBiDAF
from flows.common.data import ingest_dataset
from flows.common.failures import report_user_errors, result_or_exit
from flows.common.parameters import DataParameters, VectorParameters
from flows.common.vectors import encode_dataset
from models.arrays import IntArray
from models.batching import (
    CONTEXT_STEP,
    POOL_BATCHES,
    Batch,
    Examples,
    ResidentExamples,
    Types,
    padded_width,
    shuffled_batches,
)
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.configs.variant import Precision
from models.optim import AveragedWeights
from models.predict import span_nll
from tasks.embeddings.formats.store import load_word_vectors
from tasks.text.build_vocabulary import VocabularyConfig
from tasks.text.encoded import load_encoded, load_types

BATCH_SIZE, INFERENCE_BATCH, CONTEXT_TOKENS = 64, 128, 130
SINGLE_QUESTIONS, BATCHES = 50, 4


@dataclass(frozen=True)
class Data:
    """The data that all implementations train on and answer."""

    train: Examples
    dev: Examples
    types: Types
    vectors: torch.Tensor
    characters: int
    ingested_dev: Path


@flow(name="benchmark-step")
@report_user_errors
def prepare(dataset: str) -> list[str]:
    """Ingest and encode the dataset, or take it from the cache, and return the folders."""
    splits = ingest_dataset(DataParameters(dataset=dataset))
    encoded = encode_dataset(splits, VectorParameters(), VocabularyConfig())
    parts = (
        encoded.splits["train"],
        encoded.splits["dev"],
        encoded.vocabulary,
        encoded.vectors,
        splits.dev,
    )
    return [str(part.folder) for part in parts]


def encoded_folders(dataset: str) -> list[Path]:
    """The folders of `prepare`; an invalid dataset ends the program with a message."""
    return [Path(folder) for folder in result_or_exit(prepare(dataset, return_state=True))]


def load(dataset: str) -> Data:
    """The dataset's examples, types and vectors."""
    return load_folders(*encoded_folders(dataset))


def load_folders(
    train: Path, dev: Path, vocabulary: Path, vectors: Path, ingested_dev: Path
) -> Data:
    """The examples, types and vectors in the folders of `encoded_folders`."""
    return Data(
        load_encoded(train),
        load_encoded(dev),
        load_types(vocabulary),
        torch.from_numpy(load_word_vectors(vocabulary, vectors)),
        pq.read_metadata(vocabulary / "characters.parquet").num_rows,
        ingested_dev,
    )


@dataclass
class Implementation:
    """An implementation of the model, and the order of its batches."""

    name: str
    model: nn.Module
    in_buckets: bool
    precision: Precision = "float32"

    def autocast(self) -> torch.autocast:
        """The autocast context for the products of a step."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16")

    def batches(self, examples: Examples, steps: int) -> list[IntArray]:
        """Rows of the training batches: all batches of drawn examples if in buckets, else the first
        `steps` of them."""
        training = preset("char").training
        rows = examples.trainable(training)
        rows = np.random.default_rng(0).permutation(rows)[: POOL_BATCHES * BATCH_SIZE]
        if self.in_buckets:
            lengths = examples.context_lengths[rows]
            return [rows[batch] for batch in shuffled_batches(lengths, BATCH_SIZE, 0, 0)]
        return chunks(rows, BATCH_SIZE)[:steps]


def chunks(rows: IntArray, size: int) -> list[IntArray]:
    """The rows in order, `size` at a time; the last chunk may be smaller."""
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def implementations(data: Data) -> list[Implementation]:
    """Ours in both precisions, and the two references."""
    config = preset("char").model
    sizes = (config, data.vectors, data.characters)
    return [
        Implementation("bidaflow bfloat16", BiDAF(*sizes), True, "bfloat16"),
        Implementation("bidaflow", BiDAF(*sizes), True),
        Implementation("padded", ReferenceBiDAF(*sizes, False), False),
        Implementation("packed", ReferenceBiDAF(*sizes, True), False),
    ]


def train(implementation: Implementation, data: Data, steps: int) -> dict[str, float]:
    """Examples per second, and the share of padding, in training."""
    resident = ResidentExamples(data.train, data.types, 16, torch.device("cpu"))
    batches = implementation.batches(data.train, steps)
    parameters = list(implementation.model.parameters())
    foreach = implementation.in_buckets  # ours; the references use PyTorch's defaults
    optimizer = torch.optim.Adadelta(parameters, 0.5, foreach=foreach)
    averages = AveragedWeights(implementation.model, 0.999)
    implementation.model.train()

    def step(number: int, rows: IntArray) -> None:
        batch = resident.batch(rows)
        optimizer.zero_grad()
        with implementation.autocast():
            start, end = implementation.model(batch)
        loss = span_nll(start.float(), end.float(), batch.start, batch.end).mean()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(parameters, 5.0, foreach=foreach)
        optimizer.step()
        averages.update(number)

    step(0, batches[0])
    seconds = [seconds_of(partial(step, number, rows)) for number, rows in enumerate(batches, 1)]
    lengths = data.train.context_lengths
    tokens = sum(int((lengths[batch] + 1).sum()) for batch in batches)
    positions = sum(padded_width(lengths[batch], CONTEXT_STEP) * len(batch) for batch in batches)
    return {
        "steps": len(batches),
        "examples_per_second": sum(map(len, batches)) / sum(seconds),
        "median_step_seconds": statistics.median(seconds),
        "padding_ratio": 1 - tokens / positions,
    }


def answer(implementation: Implementation, data: Data) -> dict[str, float]:
    """Median milliseconds for one question, and questions per second in batches."""
    resident = ResidentExamples(data.dev, data.types, 16, torch.device("cpu"))
    lengths = data.dev.context_lengths
    distances = np.abs(lengths - CONTEXT_TOKENS)
    single = np.argsort(distances, kind="stable")[: SINGLE_QUESTIONS + 1]
    order = np.random.default_rng(0).permutation(np.flatnonzero(lengths <= 400))
    order = order[: (BATCHES + 1) * INFERENCE_BATCH]
    if implementation.in_buckets:
        order = order[np.argsort(lengths[order], kind="stable")]
    batches = chunks(order, INFERENCE_BATCH)
    implementation.model.eval()
    with torch.inference_mode():
        single_batches = (resident.batch(single[i : i + 1]) for i in range(len(single)))
        single_seconds = _times(implementation.model, single_batches)
        batch_seconds = _times(implementation.model, (resident.batch(rows) for rows in batches))
    return {
        "one_question_ms": 1000 * statistics.median(single_seconds[1:]),
        "answers_per_second": sum(map(len, batches[1:])) / sum(batch_seconds[1:]),
    }


def _times(model: nn.Module, batches: Iterable[Batch]) -> list[float]:
    return [seconds_of(partial(model, batch)) for batch in batches]


def seconds_of(action: Callable[[], Any]) -> float:
    """Seconds that an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="squad-v1.1-recovered")
    parser.add_argument(
        "--steps", type=int, default=8, help="steps of each reference implementation (default: 8)"
    )
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    use_worker_allocator()
    data = load(arguments.dataset)
    torch.manual_seed(0)
    measured = {}
    for implementation in implementations(data):
        speed = train(implementation, data, arguments.steps) | answer(implementation, data)
        measured[implementation.name] = speed
        print(implementation.name, json.dumps(speed), flush=True)
    result = {
        "command": f"python -m benchmarks.step --dataset {arguments.dataset} "
        f"--steps {arguments.steps}",
        "date": today(),
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "batch_size": BATCH_SIZE,
        "measured": measured,
    }
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
