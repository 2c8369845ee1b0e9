"""The layers of a split's contexts and questions, computed once and mapped into memory.

They are in half precision. Trainings read a context once per question and epoch, so computing its
layers each time would take longer than the rest of a training step.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.filesize import decimal

from infra.artifacts.manifest import stages_folder
from infra.cluster.map_reduce import in_shards
from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from infra.run_logger import logger
from infra.settings import settings
from tasks.text.split_texts import TEXT_COLUMNS, read_texts

if TYPE_CHECKING:
    from models.token_layers import TokenLayers

# Modules that load torch are imported locally: flows import this file, and torch takes seconds.

LAYERS = "layers.npy"
NUMBER = np.dtype("<f2")
BATCH_TOKENS = 16_384  # whose layers are computed before they are written


def write_layers(out: Path, split: Path, bilm: Path) -> dict[str, Any]:
    """Write the layers of each distinct text of an ingested split.

    layers.npy has those of all tokens, (tokens, layers, size); contexts.npy and questions.npy have
    the first token of each context and question of the split. `bilm` is a folder of `select_bilm`.
    """
    from tasks.embeddings.contextual.frozen_bilm import FrozenBiLM

    model = FrozenBiLM.load(bilm).on_gpu()
    shape = model.bilm.config.layers_shape
    firsts, tokens = _write_places(out, split)
    header = {"descr": NUMBER.str, "fortran_order": False, "shape": (tokens, *shape)}
    done = 0
    with (
        ProgressReporter("contextual layers", tokens, "words") as progress,
        (out / LAYERS).open("wb") as file,
    ):
        np.lib.format.write_array_header_1_0(file, header)
        for texts in in_shards(_distinct(split, firsts), len, BATCH_TOKENS):
            for layers in model.layers(texts):
                file.write(layers.astype(NUMBER).tobytes())
            done += sum(map(len, texts))
            progress.report(done)
    return {"texts": len(firsts), "tokens": tokens, "bytes": (out / LAYERS).stat().st_size}


def _write_places(out: Path, split: Path) -> tuple[dict[str, int], int]:
    """Write the first token of each context and question. Returns that of each distinct text, and
    the number of tokens of all."""
    firsts: dict[str, int] = {}
    tokens = 0
    for name in TEXT_COLUMNS:
        places = []
        for text, words in read_texts(split / name):
            if text not in firsts:
                firsts[text] = tokens
                tokens += len(words)
            places.append(firsts[text])
        np.save(out / f"{Path(name).stem}.npy", np.array(places, np.int64))
    return firsts, tokens


def _distinct(split: Path, firsts: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield the words of each distinct text, in the order of their first tokens."""
    tokens = 0
    for name in TEXT_COLUMNS:
        for text, words in read_texts(split / name):
            if firsts[text] == tokens:
                yield words
                tokens += len(words)


@dataclass(frozen=True)
class SplitLayers:
    """The layers of a split's texts."""

    contexts: "TokenLayers"
    questions: "TokenLayers"


def load_layers(folder: Path) -> SplitLayers:
    """The layers that `write_layers` wrote; they stay in the memory-mapped file."""
    from models.token_layers import TokenLayers

    layers = np.load(folder / LAYERS, mmap_mode="r")
    contexts, questions = (
        TokenLayers([layers], np.load(folder / f"{Path(name).stem}.npy")) for name in TEXT_COLUMNS
    )
    return SplitLayers(contexts, questions)


def require_space(tokens: int, shape: tuple[int, int], folder: Path) -> None:
    """Log how much space the layers of so many more tokens take on the disk of `folder`.

    Raises:
        UserError: that is more than the disk has left, or, with the layers that are stored already,
            than `layers_gb` allows.
    """
    needed = tokens * shape[0] * shape[1] * NUMBER.itemsize
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
