"""Training one variant: the driver's side, from the cluster to the model folder."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect.runtime import flow_run

from infra.settings import settings
from models.config import TrainingConfig, VariantConfig
from tasks import cluster, tracking
from tasks.cluster import Allotment, Resources
from tasks.errors import UserError
from tasks.manifests import content_digest
from tasks.vectors import require_subwords

if TYPE_CHECKING:
    from tasks.worker import Job

CHECKPOINTS_KEPT = 2


def train_variant(
    out: Path,
    dataset: str,
    variant: VariantConfig,
    train: Path,
    dev: Path,
    encoded_train: Path,
    encoded_dev: Path,
    vocabulary: Path,
    vectors: Path,
    resources: Resources,
) -> dict[str, Any]:
    """Train a variant on the cluster, score it on every dev question, and log it to MLflow.

    Writes model/ (what `Answerer` loads), history.json, config.json and predictions.parquet.
    A training that was broken off goes on from its last epoch.

    Raises:
        UserError: the cluster has less than was asked for, or nothing can be trained on.
    """
    from tasks.worker import Job

    if variant.model.unknown_words == "subword":
        require_subwords(vectors)
    _require_examples(encoded_train, variant.training)
    seconds = {"ray_start": cluster.connect()}
    allotment = cluster.allot(resources)
    uri = settings().tracking_uri
    began = time.perf_counter()
    run_id = _start_run(uri, dataset, variant, out.name, train, dev, vocabulary, vectors)
    job = Job(
        variant=variant,
        encoded_train=str(encoded_train),
        encoded_dev=str(encoded_dev),
        dev=str(dev),
        vocabulary=str(vocabulary),
        vectors=str(vectors),
        tracking_uri=uri,
        run_id=run_id,
    )
    storage = settings().root.resolve() / "ray"
    with _ending(uri, run_id):
        seconds["mlflow"] = time.perf_counter() - began
        checkpoint, seconds["fit"] = fit(job, allotment, out.name, storage)
        facts = _finish(out, job, checkpoint, dataset, seconds)
    shutil.rmtree(storage / out.name)
    return facts


def _require_examples(encoded_train: Path, training: TrainingConfig) -> None:
    from tasks.encoding import load_encoded

    try:
        load_encoded(encoded_train).trainable(
            training.max_context_tokens, training.max_question_tokens
        )
    except ValueError as error:
        raise UserError(str(error)) from error


def parent_run_of(dataset: str) -> str:
    """Id of the MLflow run that stands for this flow run's work on a dataset."""
    return tracking.parent_run(
        settings().tracking_uri,
        f"bidaflow/{dataset}",
        flow_run_id=str(flow_run.id),
        flow_run_url=flow_run.ui_url,
        name=str(flow_run.name),
        tags={"dataset": dataset},
    )


def _start_run(
    uri: str,
    dataset: str,
    variant: VariantConfig,
    stage: str,
    train: Path,
    dev: Path,
    vocabulary: Path,
    vectors: Path,
) -> str:
    """Id of this variant's MLflow run, below the flow run's."""
    parent = parent_run_of(dataset)
    digests = {
        "train.digest": content_digest(train),
        "dev.digest": content_digest(dev),
        "vocabulary.digest": content_digest(vocabulary),
        "vectors.digest": content_digest(vectors),
    }
    config = variant.to_dict()
    return tracking.start_variant_run(
        uri,
        parent,
        name=variant.name,
        stage=stage,
        config={
            "variant": config["name"],
            "dataset": dataset,
            **config["model"],
            **config["training"],
        },
        tags={"variant": variant.name, "dataset": dataset, **digests},
        datasets=[
            tracking.InputDataset(dataset, digests["train.digest"], str(train), "train"),
            tracking.InputDataset(dataset, digests["dev.digest"], str(dev), "dev"),
        ],
    )


@contextmanager
def _ending(uri: str, run_id: str) -> Iterator[None]:
    """End the MLflow run with what became of the block."""
    try:
        with tracking.system_metrics(uri, run_id):
            yield
    except BaseException as error:
        tracking.finish(uri, run_id, "FAILED" if isinstance(error, Exception) else "KILLED")
        raise
    tracking.finish(uri, run_id, "FINISHED")


def fit(job: "Job", allotment: Allotment, name: str, storage: Path) -> tuple[Path, float]:
    """Run the workers to the end: the folder of the last checkpoint, and the seconds it took.

    A training of the same name that was broken off goes on from its last checkpoint.
    """
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from tasks.worker import train_worker

    began = time.perf_counter()
    trainer = TorchTrainer(
        train_worker,
        train_loop_config={"job": asdict(job), "allotment": allotment.model_dump()},
        scaling_config=ScalingConfig(
            num_workers=allotment.workers,
            use_gpu=allotment.gpu,
            resources_per_worker={"CPU": allotment.cpus_per_worker, "GPU": int(allotment.gpu)},
        ),
        run_config=RunConfig(
            name=name,
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(num_to_keep=CHECKPOINTS_KEPT),
        ),
    )
    result = trainer.fit()
    return Path(result.checkpoint.path), time.perf_counter() - began


def _finish(
    out: Path, job: "Job", checkpoint: Path, dataset: str, seconds: dict[str, float]
) -> dict[str, Any]:
    """Fill the stage's folder from the last checkpoint, and log what people look at."""
    import torch

    from tasks.answering import save_model
    from tasks.checkpoints import averaged_weights, load_history, load_predictions
    from tasks.encoding import load_encoded, load_word_vectors
    from tasks.evaluation import evaluate, load_split, write_predictions

    history = load_history(checkpoint)
    weights = averaged_weights(checkpoint)
    vocabulary, vectors = Path(job.vocabulary), Path(job.vectors)
    policy = job.variant.model.unknown_words
    matrix = load_word_vectors(vocabulary, vectors, policy, job.variant.training.seed)
    save_model(
        out / "model",
        job.variant,
        allow_no_answer=bool(load_encoded(Path(job.encoded_train)).impossible.any()),
        weights=weights,
        word_vectors=torch.from_numpy(matrix),
        vocabulary=vocabulary,
        subwords=require_subwords(vectors) if policy == "subword" else None,
    )
    split = load_split(Path(job.dev))
    evaluation = evaluate(split, load_predictions(checkpoint))
    write_predictions(out / "predictions.parquet", split, evaluation)
    write_json(out / "history.json", history)
    write_json(out / "config.json", job.variant.to_dict())
    seconds["fit_overhead"] = seconds["fit"] - history[-1]["loop_seconds"]
    began = time.perf_counter()
    uri, run_id = job.tracking_uri, job.run_id
    files = [out / name for name in ("history.json", "config.json", "predictions.parquet")]
    tracking.log_artifacts(uri, run_id, files)
    model_uri = tracking.log_answerer(
        uri, run_id, out / "model", f"bidaf-{dataset}", step=history[-1]["step"]
    )
    seconds["mlflow"] += time.perf_counter() - began
    return {
        "variant": job.variant.name,
        "run_id": run_id,
        "run_url": tracking.run_url(uri, run_id),
        "model_uri": model_uri,
        "parameters": sum(tensor.numel() for tensor in weights.values()),
        "questions": len(evaluation.questions),
        "seconds": seconds,
        "scores": {name: history[-1][name] for name in SCORES},
    }


SCORES = ("dev/em", "dev/f1", "dev/nll", "dev/avna", "examples_per_second", "seconds")


def write_json(file: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
