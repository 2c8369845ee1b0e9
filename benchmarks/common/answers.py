"""The answers of a training as a Parquet file that contains no text."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common.machine import machine
from infra.artifacts.manifest import read_manifest
from infra.atomic_files import atomic_file


def write_answers(file: Path, trained: Path, **facts: Any) -> None:
    """Write a training's answers to the questions of dev.

    A row has the question's id, the characters of the best span, the probability of this span and
    that of no answer, and EM and F1 (0 to 1) of the model's answer. The file's metadata has facts
    about the training, and those given.
    """
    answers = pq.read_table(trained / "predictions.parquet")
    history = json.loads((trained / "history.json").read_text(encoding="utf-8"))
    manifest = read_manifest(trained)
    metadata = {
        "date": manifest["finished"][:10],
        "git": manifest["git"],
        "machine": machine(),
        "config": manifest["inputs"]["variant"],
        **facts,
        "history": history,
    }
    columns: dict[str, Any] = {
        "id": answers["id"],
        "span_start_char": answers["best_span_start_char"],
        "span_end_char": answers["best_span_end_char"],
        "span_probability": pa.array(np.exp(answers["best_score"].to_numpy()), pa.float32()),
        "no_answer_probability": answers["no_answer_probability"].cast(pa.float32()),
        "em": answers["em"],
        "f1": answers["f1"],
    }
    table = pa.table(columns, metadata={"facts": json.dumps(metadata)})
    with atomic_file(file) as out:
        pq.write_table(table, out, compression="zstd")
