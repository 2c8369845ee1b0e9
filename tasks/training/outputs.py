"""The files that a finished training leaves, from its checkpoints, and the facts about them."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from infra.artifacts.manifest import stages_folder
from infra.atomic_files import link_to_equal
from models.predict import predict, predict_tempered
from models.span_decoding import Predictions, argmax_threshold
from tasks.embeddings.formats.word_vectors import SUBWORDS
from tasks.evaluation.evaluate import evaluate, load_split, write_predictions
from tasks.evaluation.metrics import (
    THRESHOLD,
    evaluation_metrics,
    no_threshold_reason,
    share_to_expect,
)
from tasks.evaluation.temperature import best_temperature
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
from tasks.training.initialization import new_model, word_vectors_of
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
CALIBRATED_ECE = "dev/ece_calibrated"  # with the temperature that suits validation
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
    predictions = load_predictions(checkpoint / PREDICTIONS)
    model, calibrated = _calibrated(job, model, predictions)
    save_model(out / "model", model)
    for name in COMMON_FILES:
        link_to_equal(out / "model" / name, (stages_folder() / "train").glob(f"*/model/{name}"))
    start = job.data.start_from
    write_trained_contexts(out / "model", job.data.train.ingested, start and start / "model")
    dev = load_split(job.data.dev.ingested)
    argmax = argmax_threshold(allow_no_answer)
    before, answers = (evaluate(dev, own, argmax) for own in (predictions, calibrated))
    write_predictions(out / "predictions.parquet", dev, answers, before)
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
            CALIBRATED_ECE: evaluation_metrics("dev", answers)["dev/ece"],
        },
        "temperature": model.temperature,
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


def _calibrated(
    job: Job, model: TrainedModel, predictions: Predictions
) -> tuple[TrainedModel, Predictions]:
    """The model with the temperature that suits the validation split best, and its predictions
    for dev with the probabilities at this temperature. Without validation, both stay as they are.

    Answers do not change: the temperature divides the thresholds, too.
    """
    if job.data.validation is None:
        return model, predictions
    reader, _ = new_model(job.variant, job.data)
    reader.load_state_dict(model.weights)
    reader.to("cuda" if torch.cuda.is_available() else "cpu")
    training = job.variant.training
    reading = job.types(), training.max_answer_tokens, training.window
    validation = load_split(job.data.validation.ingested)
    temperature = best_temperature(
        validation,
        predict_tempered(reader, job.data.validation.examples(), *reading),
        argmax_threshold(model.allow_no_answer),
    )
    scaled, _ = predict(reader, job.data.dev.examples(), *reading, temperature=temperature)
    calibrated = replace(
        model,
        temperature=temperature,
        threshold=None if model.threshold is None else model.threshold / temperature,
        operating_points=[[nats / temperature, *f1] for nats, *f1 in model.operating_points],
    )
    return calibrated, replace(
        predictions, span_score=scaled.span_score, no_answer_score=scaled.no_answer_score
    )
