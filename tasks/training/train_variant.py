"""Trains one variant: the driver side, from connecting to the cluster to the model folder."""

import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect.runtime import flow_run

from infra.artifacts.manifest import content_digest
from infra.cluster.allotment import Resources, allot
from infra.errors import UserError
from infra.run_logger import logger
from infra.settings import settings
from infra.storage.store import checkpoint_storage
from models.configs.variant import TrainingConfig, VariantConfig
from tasks.text.length_limits import too_long
from tasks.tracking import client, model_logging, runs
from tasks.tracking.metric_logger import EpochLogger
from tasks.training.inputs import TrainingData
from tasks.training.run_params import run_parameters

SCORED = ("validation/", "dev/")  # the beginnings of the names of an epoch's scores

# Modules that load torch or Ray are imported locally: flows import this module, and both take
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
            early stopping has no validation split, a context is too long for self-attention, or the
            model of the warm start is incompatible.
    """
    from infra.cluster import ray_cluster
    from tasks.training.checkpoints import load_record
    from tasks.training.outputs import CALIBRATED_ECE, write_outputs
    from tasks.training.ray_trainer import fit
    from tasks.training.worker import Job

    _require_validation(data, variant.training)
    require_short_contexts(data, variant)
    facts: dict[str, Any] = {
        "trained_on": count_trained_questions(data.train.encoded, variant.training)
    }
    started, tags = warm_start_facts(variant, data)
    facts |= started
    seconds = {"ray_start": ray_cluster.connect()}
    allotment = allot(resources)
    storage = checkpoint_storage()
    warn_of_long_texts(data, variant)
    start = time.perf_counter()
    resumed = bool(storage.listed(out.name))  # checks the names that Ray copies to this machine
    run_id = start_run(dataset, variant, out.name, data, resources, resumed)
    runs.tag(run_id, {"allotment": str(allotment), **tags})
    with runs.finishing_run(run_id):
        seconds["mlflow"] = time.perf_counter() - start
        job = Job(variant, data, settings().tracking_uri, run_id)
        fitted = fit(job, allotment, out.name, storage)
        facts |= write_outputs(out, job, fitted)
        start = time.perf_counter()
        runs.require_kept(run_id)
        record = load_record(fitted.last)
        logger = EpochLogger(job.tracking_uri, run_id, unsent=record.unsent)
        logger.complete(record.history, "dev/f1")
        facts["run_url"] = client.run_url(run_id)
        _log_files(run_id, out, facts)
        log_kept_epoch(run_id, out, facts["epoch"])
        calibrated = {CALIBRATED_ECE: facts["scores"][CALIBRATED_ECE]}
        runs.log_scores(run_id, calibrated, facts["step"])
        facts["model_uri"] = model_logging.log_model(
            run_id, out / "model", f"bidaf-{dataset}", step=facts.pop("step")
        )
        seconds["mlflow"] += time.perf_counter() - start
    return facts | {"seconds": seconds | facts["seconds"]}


def remove_checkpoints(trained: Path) -> None:
    """Remove the checkpoints of a training whose stage is complete."""
    # Both may race with another flow run.
    shutil.rmtree(settings().root.resolve() / "ray" / trained.name, ignore_errors=True)
    if settings().address is not None:
        checkpoint_storage().remove(trained.name)


def _require_validation(data: TrainingData, training: TrainingConfig) -> None:
    for name in ("patience", "stop_at_f1"):
        if getattr(training, name) is not None and data.validation is None:
            raise UserError(
                f"{name} needs a validation split, and this dataset has none. Set "
                "data.validation_share above 0 (the split needs enough articles), or leave "
                f"{name} empty."
            )


def require_short_contexts(data: TrainingData, variant: VariantConfig) -> None:
    """Check that a variant can read the contexts that it is evaluated on.

    Raises:
        UserError: some are too long.
    """
    from models.predict import longest_context
    from tasks.text.encoded import load_encoded

    limit = longest_context(variant.model, variant.training.window)
    if limit == math.inf:
        return
    for name, split in data.splits.items():
        if name == "train":  # training leaves out longer contexts itself
            continue
        lengths = load_encoded(split.encoded).context_lengths
        if count := int((lengths > limit).sum()):
            raise UserError(
                f"{count:,} of {len(lengths):,} {name} questions are about contexts of more than "
                f"{limit:,} tokens, the longest with {lengths.max():,}. {variant.name} would take "
                "too much memory for them. Read such contexts in windows: set "
                "training.window_stride, for example to 200."
            )


def warn_of_long_texts(data: TrainingData, variant: VariantConfig) -> None:
    """Log what a variant does not train on or predict because it is too long."""
    from tasks.text.encoded import load_encoded

    examples = load_encoded(data.train.encoded)
    answers = (examples.span_end - examples.span_start + 1)[examples.span_start >= 0]
    kinds = (examples.contexts.lengths, examples.questions.lengths, answers)
    contexts, questions, spans = (Counter(lengths.tolist()) for lengths in kinds)
    for sentence in too_long(contexts, questions, spans, variant.training):
        logger().warning(f"{variant.name}: {sentence}")


def warm_start_facts(
    variant: VariantConfig, data: TrainingData
) -> tuple[dict[str, Any], dict[str, str]]:
    """The facts and the MLflow tags of a warm start, which are also logged; empty without one.

    Raises:
        UserError: the model of the warm start is incompatible.
    """
    from tasks.training.initialization import leakage_warning, new_model, warm_start_summary

    _, carried = new_model(variant, data)
    if carried is None:
        return {}, {}
    facts: dict[str, Any] = {"carried_over": asdict(carried)}
    tags = {"carried_over": warm_start_summary(carried, variant)}
    print(tags["carried_over"], flush=True)
    if warning := leakage_warning(variant.name, data):
        facts["data_leakage"] = tags["data_leakage"] = warning
        logger().warning(warning)
    return facts, tags


def count_trained_questions(encoded_train: Path, training: TrainingConfig) -> int:
    """The number of questions that a training uses.

    Raises:
        UserError: there are none, or too few of a kind for `no_answer_share`.
    """
    from models.sliding_windows import count_trainable, select_for_epoch
    from tasks.text.encoded import load_encoded

    examples = load_encoded(encoded_train)
    try:
        select_for_epoch(examples, training)  # raises also if no_answer_share can't be reached
        return count_trainable(examples, training)
    except ValueError as error:
        raise UserError(str(error)) from error


def start_run(
    dataset: str,
    variant: VariantConfig,
    stage: str,
    data: TrainingData,
    resources: Resources,
    resumed: bool,
) -> str:
    """Start or reopen this variant's MLflow run, a child of the flow run's. Returns its id."""
    ingested = {name: split.ingested for name, split in data.splits.items()}
    run = runs.VariantRun(
        f"{variant.name} · seed {variant.training.seed} · {flow_run.name}",
        stage,
        config=run_parameters(dataset, variant, data, resources),
        tags={
            "variant": variant.name,
            "dataset": dataset,
            "vocabulary.digest": content_digest(data.vocabulary),
            "vectors.digest": content_digest(data.vectors),
            **({} if data.bilm is None else {"contextual.digest": content_digest(data.bilm)}),
        },
        datasets=runs.split_datasets(dataset, ingested),
    )
    return runs.start_variant_run(runs.parent_run_of(dataset), run, resumed)


def _log_files(run_id: str, out: Path, facts: Mapping[str, Any]) -> None:
    tags = {name: str(facts[name]) for name in ("ended", "epoch", "temperature")}
    if facts["threshold"] is not None:
        tags["threshold"] = f"{facts['threshold']:.4f}"
    runs.tag(run_id, tags)
    names = ("history.json", "config.json", "predictions.parquet")
    runs.log_artifacts(run_id, [out / name for name in names])


def log_kept_epoch(run_id: str, out: Path, epoch: int) -> None:
    """Make the scores of the epoch that the model is from the run's latest ones, by which MLflow
    compares runs. With early stopping, it is not the last epoch."""
    history = json.loads((out / "history.json").read_text(encoding="utf-8"))
    kept = next(entry for entry in history if entry["epoch"] == epoch)
    if kept != history[-1]:
        scores = {name: value for name, value in kept.items() if name.startswith(SCORED)}
        runs.log_scores(run_id, scores, step=int(history[-1]["step"]))
