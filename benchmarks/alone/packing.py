"""Gathers data for machines on which the project is not installed."""

import flows  # noqa: F401  (sets Prefect's environment, before it is imported)

# isort: split
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from prefect import flow

from benchmarks.alone.packed import ABOUT, ENCODED, INGESTED, VECTORS
from flows.common.data import ingest_dataset
from flows.common.failures import report_user_errors, result_or_exit
from flows.common.parameters import DataParameters, VectorParameters
from flows.common.training import Training
from flows.common.vectors import encode_dataset
from models.configs.presets import preset
from tasks.embeddings.formats.store import load_word_vectors
from tasks.text.build_vocabulary import VocabularyConfig
from tasks.training.inputs import TrainingData


@flow(name="benchmark-alone")
@report_user_errors
def _pack(folder: str, data: DataParameters, vectors: VectorParameters) -> None:
    splits = ingest_dataset(data)
    encoded = encode_dataset(splits, vectors, VocabularyConfig())
    name, _, inputs = Training(preset("char"), splits, encoded).inputs
    gather(Path(folder), inputs, name)


def pack_data(folder: Path, data: Any, vectors: Any) -> None:
    """Ingest and encode data, and gather it in the folder. Both are names, or mappings of fields.

    Invalid data, and a folder that is not empty, end the program with a message: checkpoints in it
    would be those of other data.
    """
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty. Remove it, or pack into another folder.")
    result_or_exit(
        _pack(
            str(folder),
            {"dataset": data} if isinstance(data, str) else data,
            {"source": vectors} if isinstance(vectors, str) else vectors,
            return_state=True,
        )
    )


def gather(folder: Path, data: TrainingData, dataset: str) -> None:
    """Copy encoded splits, the ingested splits that are evaluated, vocabulary and vectors to the
    folder, with the dataset's name."""
    for name, split in data.splits.items():
        shutil.copytree(split.encoded, folder / name / ENCODED)
        if name != "train":
            shutil.copytree(split.ingested, folder / name / INGESTED)
    shutil.copy(data.vocabulary / "types.parquet", folder)
    np.save(folder / VECTORS, load_word_vectors(data.vocabulary, data.vectors))
    characters = pq.read_metadata(data.vocabulary / "characters.parquet").num_rows
    text = json.dumps({"dataset": dataset, "characters": characters}, indent=1)
    (folder / ABOUT).write_text(f"{text}\n", encoding="utf-8")
