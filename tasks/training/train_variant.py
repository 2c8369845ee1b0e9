"""Trains one variant: the driver side, from connecting to the cluster to the model folder."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect.runtime import flow_run

from infra import ray_cluster
from infra.artifacts.manifest import content_digest
from infra.errors import UserError
from infra.ray_cluster import Resources
from infra.settings import settings
from models.configs.variant import TrainingConfig, VariantConfig
from tasks.embeddings.formats.word_vectors import SUBWORDS
from tasks.evaluation.metrics import THRESHOLD
from tasks.tracking import client, metric_logger, model_logging, runs
from tasks.training.inputs import TrainingData
from tasks.training.run_params import run_parameters

if TYPE_CHECKING:
    from tasks.training.ray_trainer import FitResult
    from tasks.training.worker import Job

# Modules that load torch or Ray Train are imported locally: flows import this module, and both take
# seconds to load.


def train_variant(
    out: Path,
    dataset: str,
    variant: VariantConfig,
    data: TrainingData,
    resources: Resources,
) -> dict[str, Any]:
    """Train a variant on the cluster, evaluate it on every dev question, and log it to MLflow.

    Writes model/ (for `Predictor.load`), history.json, config.json and predictions.parquet. Model
    and predictions are those of the last epoch, or with `patience` those of the epoch with the best
    validation F1. An interrupted training resumes from its last checkpoint. Checkpoints are kept
    until `remove_checkpoints`, in case the process is killed before the stage is complete.

    Raises:
        UserError: the cluster has fewer resources than requested, no question can be trained on,
            early stopping has no validation split, or the model of the warm start is incompatible.
    """
    from tasks.training.initialization import new_model, warm_start_facts, warm_start_summary
    from tasks.training.ray_trainer import fit
    from tasks.training.worker import Job

    _require_validation(data, variant.training)
    trained_on = _trained_questions(data.train.encoded, variant.training)
    _, carried = new_model(variant, data)
    if carried is not None:
        print(warm_start_summary(carried, variant), flush=True)
    seconds = {"ray_start": ray_cluster.connect()}
    allotment = ray_cluster.allot(resources)
    uri = settings().tracking_uri
    start = time.perf_counter()
    storage = _storage()
    resumed = (storage / out.name).exists()
    run_id = start_run(dataset, variant, out.name, data, resources, resumed)
    runs.tag(uri, run_id, {"allotment": str(allotment)})
    if carried is not None:
        runs.tag(uri, run_id, {"carried_over": warm_start_summary(carried, variant)})
    job = Job(variant, data, uri, run_id)
    with _finishing_run(uri, run_id):
        seconds["mlflow"] = time.perf_counter() - start
        fitted = fit(job, allotment, out.name, storage)
        facts = _finish(out, job, fitted, dataset, seconds)
    return facts | {"trained_on": trained_on} | warm_start_facts(carried)


def remove_checkpoints(trained: Path) -> None:
    """Remove the checkpoints of a training whose stage is complete."""
    shutil.rmtree(_storage() / trained.name, ignore_errors=True)  # may race with another flow run


def _storage() -> Path:
    return settings().root.resolve() / "ray"


def _require_validation(data: TrainingData, training: TrainingConfig) -> None:
    for name in ("patience", "stop_at_f1"):
        if getattr(training, name) is not None and data.validation is None:
            raise UserError(
                f"{name} needs a validation split, and this dataset has none. Set "
                "data.validation_share above 0 (the split needs enough articles), or leave "
                f"{name} empty."
            )


def _trained_questions(encoded_train: Path, training: TrainingConfig) -> int:
    from models.sliding_windows import count_trainable
    from tasks.text.encoded import load_encoded

    try:
        return count_trainable(load_encoded(encoded_train), training)
    except ValueError as error:
        raise UserError(str(error)) from error


def parent_run_of(dataset: str) -> str:
    """Id of the parent MLflow run of this flow run for a dataset."""
    return runs.parent_run(
        settings().tracking_uri,
        f"bidaflow/{dataset}",
        flow_run_id=str(flow_run.id),
        flow_run_url=flow_run.ui_url,
        name=str(flow_run.name),
        tags={"dataset": dataset},
    )


def start_run(
    dataset: str,
    variant: VariantConfig,
    stage: str,
    data: TrainingData,
    resources: Resources,
    resumed: bool,
) -> str:
    """Start or reopen this variant's MLflow run, a child of the flow run's. Returns its id."""
    splits: dict[runs.Split, Path] = {"train": data.train.ingested, "dev": data.dev.ingested}
    if data.validation is not None:
        splits["validation"] = data.validation.ingested
    run = runs.VariantRun(
        variant.name,
        stage,
        config=run_parameters(dataset, variant, data, resources),
        tags={
            "variant": variant.name,
            "dataset": dataset,
            "vocabulary.digest": content_digest(data.vocabulary),
            "vectors.digest": content_digest(data.vectors),
        },
        datasets=runs.split_datasets(dataset, splits),
    )
    return runs.start_variant_run(settings().tracking_uri, parent_run_of(dataset), run, resumed)


@contextmanager
def _finishing_run(uri: str, run_id: str) -> Iterator[None]:
    """Log system metrics during the block, then end the MLflow run with the block's outcome."""
    try:
        with metric_logger.system_metrics(uri, run_id):
            yield
    except BaseException as error:
        runs.finish(uri, run_id, "FAILED" if isinstance(error, Exception) else "KILLED")
        raise
    runs.finish(uri, run_id, "FINISHED")


def _finish(
    out: Path, job: "Job", fitted: "FitResult", dataset: str, seconds: dict[str, float]
) -> dict[str, Any]:
    """Write the stage's files from the checkpoint to keep, log to MLflow, and return the facts."""
    from tasks.training.checkpoints import load_record

    keeps_best = job.variant.training.patience is not None
    checkpoint = fitted.best if keeps_best else fitted.last
    record, kept = load_record(fitted.last), load_record(checkpoint).history[-1]
    threshold = kept.get(THRESHOLD)
    parameters = _write_model(out / "model", job, checkpoint, threshold)
    questions = _write_predictions(out / "predictions.parquet", job, checkpoint)
    write_json(out / "history.json", record.history)
    write_json(out / "config.json", job.variant.to_dict())
    seconds |= {"fit": fitted.seconds, "fit_overhead": fitted.seconds - record.loop_seconds}
    start = time.perf_counter()
    uri, run_id = job.tracking_uri, job.run_id
    tags = {"ended": str(record.ended), "epoch": str(kept["epoch"])}
    if threshold is not None:
        tags["threshold"] = f"{threshold:.4f}"
    runs.tag(uri, run_id, tags)
    files = [out / name for name in ("history.json", "config.json", "predictions.parquet")]
    runs.log_artifacts(uri, run_id, files)
    model_uri = model_logging.log_model(
        uri, run_id, out / "model", f"bidaf-{dataset}", step=kept["step"]
    )
    seconds["mlflow"] += time.perf_counter() - start
    return {
        "variant": job.variant.name,
        "run_id": run_id,
        "run_url": client.run_url(uri, run_id),
        "model_uri": model_uri,
        "parameters": parameters,
        "questions": questions,
        "seconds": seconds,
        "ended": record.ended,
        "epoch": kept["epoch"],
        "scores": {name: kept[name] for name in SCORES if name in kept},
        "threshold": threshold,
        "no_threshold": _why_no_threshold(job.data),
    }


def _why_no_threshold(data: TrainingData) -> str | None:
    from tasks.evaluation.thresholds import no_threshold_reason
    from tasks.text.encoded import load_encoded

    validation = load_encoded(data.validation.encoded) if data.validation else None
    return no_threshold_reason(load_encoded(data.train.encoded), validation)


def _allows_no_answer(data: TrainingData) -> bool:
    from tasks.text.encoded import load_encoded

    return bool(load_encoded(data.train.encoded).impossible.any())


def _write_model(folder: Path, job: "Job", checkpoint: Path, threshold: float | None) -> int:
    """Write the model folder that `Predictor` loads. Returns the number of parameters."""
    import torch

    from tasks.embeddings.formats.matrix import load_word_vectors
    from tasks.inference.model_folder import TrainedModel, save_model
    from tasks.training.checkpoints import averaged_weights

    data = job.data
    weights = averaged_weights(checkpoint)
    policy = job.variant.model.unknown_words
    vectors = load_word_vectors(data.vocabulary, data.vectors, policy, job.variant.training.seed)
    model = TrainedModel(
        job.variant,
        allow_no_answer=_allows_no_answer(data),
        weights=weights,
        word_vectors=torch.from_numpy(vectors),
        vocabulary=data.vocabulary,
        subwords=data.vectors / SUBWORDS if policy == "subword" else None,
        threshold=threshold,
    )
    save_model(folder, model)
    return sum(tensor.numel() for tensor in weights.values())


def _write_predictions(file: Path, job: "Job", checkpoint: Path) -> int:
    """Write the answers to the dev questions. Returns the number of questions."""
    from models.span_decoding import argmax_threshold
    from tasks.evaluation.evaluate import evaluate, load_split, write_predictions
    from tasks.training.checkpoints import load_predictions

    split = load_split(job.data.dev.ingested)
    threshold = argmax_threshold(_allows_no_answer(job.data))
    write_predictions(file, split, evaluate(split, load_predictions(checkpoint), threshold))
    return len(split)


SCORES = (
    *("dev/em", "dev/f1", "dev/nll", "dev/avna", "dev/ece"),
    *("dev/questions_within", "dev/em_within", "dev/f1_within", "dev/avna_within"),
    *("dev/nll_within", "dev/em_at_threshold", "dev/f1_at_threshold", "dev/avna_at_threshold"),
    *("examples_per_second", "seconds"),
)


def write_json(file: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
