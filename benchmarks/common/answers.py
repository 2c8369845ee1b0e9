"""Answers as Parquet files that contain no text.

A row has the question's id, the characters of the best span, the probability of this span and that
of no answer, and EM and F1 (0 to 1) of the more probable of the two. With a no-answer threshold,
it also has EM and F1 at this threshold. The file's metadata has facts about the model.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common.machine import machine
from infra.artifacts.manifest import read_manifest
from infra.atomic_files import atomic_file
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import EvaluationSplit, evaluate


def write_answers(file: Path, trained: Path, threshold: float | None = None, **facts: Any) -> None:
    """Write a training's answers to the questions of dev, with facts about the training, and those
    given."""
    answers: Any = pq.read_table(trained / "predictions.parquet")
    columns: dict[str, Any] = {
        "id": answers["id"],
        "span_start_char": answers["best_span_start_char"],
        "span_end_char": answers["best_span_end_char"],
        "span_probability": np.exp(answers["best_score"].to_numpy()),
        "no_answer_probability": answers["no_answer_probability"],
        "em": answers["em"],
        "f1": answers["f1"],
    }
    if threshold is not None:
        margin = answers["no_answer_score"].to_numpy() - answers["best_score"].to_numpy()
        none, unanswered = margin >= threshold, answers["no_answer_em"].to_numpy()
        for score in ("em", "f1"):
            best = answers[f"best_{score}"].to_numpy()
            columns[f"{score}_at_threshold"] = np.where(none, unanswered, best)
    write_columns(file, columns, {**facts_about(trained), "threshold": threshold, **facts})


def write_predictions(
    file: Path,
    split: EvaluationSplit,
    predictions: Predictions,
    argmax: float,
    threshold: float | None = None,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write predictions for the questions of a split, and facts.

    `argmax` is the threshold of the model's more probable answers (see `argmax_threshold`).
    """
    spans = evaluate(split, predictions, math.inf)
    columns: dict[str, Any] = {
        "id": split.ids,
        "span_start_char": spans.start_chars,
        "span_end_char": spans.end_chars,
        "span_probability": np.exp(predictions.span_score),
        "no_answer_probability": np.exp(predictions.no_answer_score),
    }
    for suffix, limit in {"": argmax, "_at_threshold": threshold}.items():
        if limit is not None:
            scores = evaluate(split, predictions, limit).questions
            columns[f"em{suffix}"] = [score.em for score in scores]
            columns[f"f1{suffix}"] = [score.f1 for score in scores]
    write_columns(file, columns, {"threshold": threshold_fact(threshold), **facts})


def threshold_fact(threshold: float | None) -> float | str | None:
    """A threshold as a JSON value."""
    return "spans only" if threshold == math.inf else threshold


def facts_about(trained: Path) -> dict[str, Any]:
    """When, where and how a training ran, and the scores of its epochs."""
    manifest = read_manifest(trained)
    return {
        "date": manifest["finished"][:10],
        "git": manifest["git"],
        "machine": machine(),
        "config": manifest["inputs"]["variant"],
        "history": json.loads((trained / "history.json").read_text(encoding="utf-8")),
    }


def write_columns(file: Path, columns: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Write columns of answers, (n,) each, and facts about them."""
    arrays = {name: _array(name, values) for name, values in columns.items()}
    table = pa.table(arrays, metadata={"facts": json.dumps(dict(facts))})
    with atomic_file(file) as out:
        pq.write_table(table, out, compression="zstd")


def _array(name: str, values: Any) -> Any:
    kinds = {
        "id": pa.string(),
        "kind": pa.string(),
        "span_start_char": pa.int32(),
        "span_end_char": pa.int32(),
    }
    kind: Any = kinds.get(name, pa.float32())
    return values.cast(kind) if isinstance(values, pa.ChunkedArray) else pa.array(values, kind)
