"""Answers as Parquet files that contain no text.

A row has the question's id, the characters of the best span, the probability of this span and that
of no answer, and EM and F1 (0 to 1) of the more probable of the two. With a no-answer threshold,
it also has EM and F1 at this threshold. Files of trainings also have what any threshold needs: the
margin by which no answer is more probable (nats), EM and F1 of the span, EM of no answer, whether
the question has an answer, whether its context is within the token limit of training, and the
number of its article. The file's metadata has facts about the model.
"""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common.machine import machine
from benchmarks.trainings.trained import Trained
from infra.atomic_files import atomic_file
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split


def write_answers(
    file: Path, trained: Trained, threshold: float | None = None, **facts: Any
) -> None:
    """Write a training's answers to the questions of dev, with facts about the training, and those
    given."""
    answers: Any = pq.read_table(trained.folder / "predictions.parquet")
    margin = answers["no_answer_score"].to_numpy() - answers["best_score"].to_numpy()
    columns: dict[str, Any] = {
        "id": answers["id"],
        "span_start_char": answers["best_span_start_char"],
        "span_end_char": answers["best_span_end_char"],
        "span_probability": np.exp(answers["best_score"].to_numpy()),
        "no_answer_probability": answers["no_answer_probability"],
        "em": answers["em"],
        "f1": answers["f1"],
        "margin": margin,
        "span_em": answers["best_em"],
        "span_f1": answers["best_f1"],
        "no_answer_em": answers["no_answer_em"],
        **kinds(load_split(trained.input("dev", "ingested")), token_limit(trained)),
    }
    if threshold is not None:
        for score in ("em", "f1"):
            scores = (answers[name].to_numpy() for name in ("no_answer_em", f"best_{score}"))
            columns[f"{score}_at_threshold"] = np.where(margin >= threshold, *scores)
    write_columns(file, columns, {**facts_about(trained), "threshold": threshold, **facts})


def write_validation(file: Path, trained: Trained) -> None:
    """Write a training's answers to the questions of validation; takes minutes."""
    split, predictions = trained.validation()
    columns = threshold_columns(split, predictions, token_limit(trained))
    write_columns(file, columns, {**facts_about(trained), "split": "validation"})


def threshold_columns(
    split: EvaluationSplit, predictions: Predictions, limit: int
) -> dict[str, Any]:
    """Columns of the best spans, and what any no-answer threshold needs. `limit` is the token limit
    of training."""
    unanswered = evaluate(split, predictions, -math.inf).questions
    return {
        **span_columns(split, predictions),
        "margin": predictions.margin,
        "no_answer_em": [score.em for score in unanswered],
        **kinds(split, limit),
    }


def token_limit(trained: Trained) -> int:
    """The token limit of a training."""
    return trained.training.variant.training.max_context_tokens


def kinds(split: EvaluationSplit, limit: int) -> dict[str, Any]:
    """Columns of whether each question has an answer, and a context within the token limit, and of
    its article."""
    within = split.context_lengths[split.context_of] <= limit
    return {"answerable": split.answerable, "within": within, "article": split.article_of}


def span_columns(split: EvaluationSplit, predictions: Predictions) -> dict[str, Any]:
    """Columns of the best spans, their scores, and the probabilities."""
    spans = evaluate(split, predictions, math.inf)
    return {
        "id": split.ids,
        "span_start_char": spans.start_chars,
        "span_end_char": spans.end_chars,
        "span_probability": np.exp(predictions.span_score),
        "no_answer_probability": np.exp(predictions.no_answer_score),
        "span_em": [score.em for score in spans.questions],
        "span_f1": [score.f1 for score in spans.questions],
    }


def write_predictions(
    file: Path,
    split: EvaluationSplit,
    predictions: Predictions,
    argmax: float,
    facts: Mapping[str, Any],
) -> None:
    """Write predictions for the questions of a split, and facts.

    `argmax` is the threshold of the model's more probable answers (see `argmax_threshold`).
    """
    scores = evaluate(split, predictions, argmax).questions
    columns = {
        **span_columns(split, predictions),
        "em": [score.em for score in scores],
        "f1": [score.f1 for score in scores],
    }
    write_columns(file, columns, facts)


def facts_about(trained: Trained) -> dict[str, Any]:
    """When, where and how a training ran, the scores of its epochs, and the epoch that was kept."""
    manifest = trained.manifest
    return {
        "date": manifest["finished"][:10],
        "git": manifest["git"],
        "machine": machine(),
        **trained.training.facts,
        "kept": {"epoch": trained.facts["epoch"], "scores": trained.facts["scores"]},
        "history": trained.history,
    }


def write_columns(file: Path, columns: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Write columns of answers, (n,) each, and facts about them."""
    arrays = {name: _array(name, values) for name, values in columns.items()}
    table = pa.table(arrays, metadata={"facts": json.dumps(dict(facts))})
    with atomic_file(file) as out:
        pq.write_table(table, out, compression="zstd")


def read_facts(file: Path) -> dict[str, Any]:
    """The facts in a file of answers; ends the program if it is another file."""
    try:
        facts: dict[str, Any] = json.loads((pq.read_schema(file).metadata or {})[b"facts"])
    except (pa.ArrowInvalid, KeyError):
        sys.exit(f"{file} is not a file of a training's answers. Remove it, or give another one.")
    return facts


def _array(name: str, values: Any) -> Any:
    kinds = {
        "id": pa.string(),
        "kind": pa.string(),
        "weights": pa.string(),
        "step": pa.int32(),
        "article": pa.int32(),
        "answerable": pa.bool_(),
        "within": pa.bool_(),
        "span_start_char": pa.int32(),
        "span_end_char": pa.int32(),
    }
    kind: Any = kinds.get(name, pa.float32())
    return values.cast(kind) if isinstance(values, pa.ChunkedArray) else pa.array(values, kind)
