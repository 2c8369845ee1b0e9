"""The files that a finished training leaves, from its checkpoints, and the facts about them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from infra.artifacts.hard_links import link_to_equal
from infra.artifacts.manifest import stages_folder
from models.span_decoding import argmax_threshold
from tasks.embeddings.formats.word_vectors import SUBWORDS
from tasks.evaluation.evaluate import evaluate, load_split, write_predictions
from tasks.evaluation.metrics import THRESHOLD, no_threshold_reason, share_to_expect
from tasks.inference.model_folder import COMMON_FILES, TrainedModel, save_model
from tasks.inference.trained_contexts import write_trained_contexts
from tasks.text.encoded import load_encoded
from tasks.training.checkpoints import (
    PREDICTIONS,
    TrainingRecord,
    averaged_weights,
    load_predictions,
    load_record,
)
from tasks.training.initialization import word_vectors_of
from tasks.training.ray_trainer import FitResult
from tasks.training.worker import Job

# The parameters of the contextual vectors' mixes, one at each place.
MIX = re.compile(r"mixes\.(\w+)\.weights")
SCORES = (
    "validation/f1",
    *("dev/em", "dev/f1", "dev/nll", "dev/avna", "dev/ece"),
    *("dev/questions_within", "dev/em_within", "dev/f1_within", "dev/avna_within"),
    *("dev/nll_within", "dev/em_at_threshold", "dev/f1_at_threshold", "dev/avna_at_threshold"),
    "dev/no_answer_auc",
)
SPEED = ("examples_per_second", "seconds")  # of all epochs, whichever one is kept


def write_outputs(out: Path, job: Job, fitted: FitResult) -> dict[str, Any]:
    """Write model/, predictions.parquet, history.json and config.json, and return the facts.

    Model and predictions are those of the last epoch, or with early stopping (`patience`) those of
    the epoch with the best validation F1.
    """
    keeps_best = job.variant.training.patience is not None
    checkpoint = fitted.best if keeps_best else fitted.last
    record, best = load_record(fitted.last), load_record(checkpoint)
    kept = best.history[-1]
    encoded = {name: load_encoded(split.encoded) for name, split in job.data.splits.items()}
    allow_no_answer = bool(encoded["train"].impossible.any())
    model = _trained_model(job, averaged_weights(checkpoint), allow_no_answer, best)
    save_model(out / "model", model)
    for name in COMMON_FILES:
        link_to_equal(out / "model" / name, (stages_folder() / "train").glob(f"*/model/{name}"))
    start = job.data.start_from
    write_trained_contexts(out / "model", job.data.train.ingested, start and start / "model")
    dev = load_split(job.data.dev.ingested)
    answers = evaluate(
        dev, load_predictions(checkpoint / PREDICTIONS), argmax_threshold(allow_no_answer)
    )
    write_predictions(out / "predictions.parquet", dev, answers)
    for name, value in (("history", record.history), ("config", job.variant.to_dict())):
        (out / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return {
        "variant": job.variant.name,
        "run_id": job.run_id,
        "parameters": sum(tensor.numel() for tensor in model.weights.values()),
        "questions": len(dev),
        "seconds": {"fit": fitted.seconds, "fit_overhead": fitted.seconds - record.loop_seconds},
        "ended": record.ended,
        "epoch": kept["epoch"],
        "step": kept["step"],
        "scores": {
            **{name: kept[name] for name in SCORES if name in kept},
            **{name: record.history[-1][name] for name in SPEED},
        },
        "threshold": model.threshold,
        "expected_no_answer": share_to_expect(
            job.variant.training.expected_no_answer, encoded["train"]
        ),
        "mixes": _mixes(model.weights),
        "no_threshold": no_threshold_reason(encoded["train"], encoded.get("validation")),
    }


def _mixes(weights: Mapping[str, torch.Tensor]) -> dict[str, dict[str, Any]]:
    """The share of each layer in the contextual vectors, and their scale γ, by place."""
    places = [match[1] for match in map(MIX.fullmatch, weights) if match]
    return {
        place: {
            "shares": torch.softmax(weights[f"mixes.{place}.weights"], 0).tolist(),
            "scale": weights[f"mixes.{place}.scale"].item(),
        }
        for place in places
    }


def _trained_model(
    job: Job, weights: dict[str, torch.Tensor], allow_no_answer: bool, record: TrainingRecord
) -> TrainedModel:
    """The model of the epoch with which the record ends."""
    data = job.data
    return TrainedModel(
        job.variant,
        allow_no_answer=allow_no_answer,
        weights=weights,
        word_vectors=torch.from_numpy(word_vectors_of(job.variant, data)),
        vocabulary=data.vocabulary,
        subwords=data.vectors / SUBWORDS if job.variant.model.unknown_words == "subword" else None,
        threshold=record.history[-1].get(THRESHOLD),
        operating_points=record.operating_points,
        bilm=data.bilm,
    )
