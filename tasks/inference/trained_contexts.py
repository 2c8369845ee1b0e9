"""What a model was trained on, so that two models are compared on other questions.

A model folder has their fingerprints, 16 bytes each, and no text.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.arrays import BoolArray
from models.configs.variant import VariantConfig
from tasks.data.ingested import fingerprint, fingerprints
from tasks.evaluation.evaluate import EvaluationSplit
from tasks.inference.members import member_folders
from tasks.tracking.registry import TRAINED_CONTEXTS


def write_trained_contexts(model: Path, train: Path, start_from: Path | None) -> None:
    """Write the contexts of an ingested train split, and those of the model folder of a warm start,
    into the folder of the model that was trained on them."""
    known = fingerprints([train])
    if start_from is not None:
        known |= trained_contexts(start_from)
    _write(model, known)


def join_trained_contexts(ensemble: Path, members: Iterable[Path]) -> None:
    """Write the contexts of all members, given by their folders, into an ensemble's folder."""
    _write(ensemble, set().union(*map(trained_contexts, members)))


def _write(model: Path, known: set[bytes]) -> None:
    table = pa.table({"fingerprint": pa.array(sorted(known), pa.binary(16))})
    pq.write_table(table, model / TRAINED_CONTEXTS, compression="none")  # digests don't compress


def trained_contexts(model: Path) -> set[bytes]:
    """The fingerprints in a model folder, also of those contexts that the models were trained on
    from which it was started."""
    column: Any = pq.read_table(model / TRAINED_CONTEXTS)["fingerprint"]
    return set(column.to_pylist())


def new_to_models(split: EvaluationSplit, trained: Iterable[set[bytes]]) -> BoolArray:
    """Whether none of the models, given by their `trained_contexts`, was trained on a question's
    context."""
    known = set().union(*trained)
    new = np.array([fingerprint(text) not in known for text in split.contexts], dtype=np.bool_)
    return new[split.context_of]


def chose_epoch(model: Path) -> bool:
    """Whether validation chose the epoch of a model, or of a member of an ensemble."""
    if members := member_folders(model):
        return any(map(chose_epoch, members))
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return VariantConfig.from_dict(config["variant"]).training.chooses_epoch
