"""A small dataset that is ready for training."""

from pathlib import Path
from typing import Any

import torch
from mlflow.tracking import MlflowClient

from models.configs.presets import preset
from models.configs.variant import VariantConfig
from models.trainer import Trainer
from tasks.data.ingest import ingest_articles
from tasks.data.schema import Article
from tasks.datasets.tiny import generate
from tasks.inference.model_folder import TrainedModel, save_model
from tasks.text.encode import encode_split
from tasks.training.checkpoints import TrainingRecord, save_checkpoint
from tasks.training.initialization import new_model, word_vectors_of
from tasks.training.inputs import SplitFolders, TrainingData
from tasks.training.outputs import write_outputs
from tasks.training.ray_trainer import FitResult
from tasks.training.worker import Job
from tests.factories.vocabularies import write_vocabulary


def prepare(folder: Path, articles: int = 4) -> TrainingData:
    """A train split of `articles` articles, and dev and validation splits of one article each.

    Each article has 25 questions.
    """
    train, dev = generate(7, articles, 1, 5)
    squad = {"train": train, "dev": dev, "validation": generate(8, articles, 1, 5)[1]}
    splits = {name: SplitFolders(folder / name, folder / f"encoded-{name}") for name in squad}
    for name, folders in splits.items():
        folders.ingested.mkdir()
        ingest_articles(map(Article.model_validate, squad[name]["data"]), folders.ingested)
    ingested = [folders.ingested for folders in splits.values()]
    vectors, vocabulary = write_vocabulary(folder, ingested)
    for folders in splits.values():
        folders.encoded.mkdir()
        encode_split(folders.encoded, folders.ingested, vocabulary)
    return TrainingData(vocabulary=vocabulary, vectors=vectors, **splits)


def small(**changes: Any) -> VariantConfig:
    """`char`, small enough to train in seconds."""
    small = {"hidden_size": 8, "optimizer": "adam", "learning_rate": 0.01, "batch_size": 12}
    return preset("char").with_changes(**{**small, **changes})


def save_warm_start(folder: Path, variant: VariantConfig, data: TrainingData) -> Path:
    """Save a model with all weights 0.25, as `start_from` reads it; returns the folder."""
    model, _ = new_model(variant, data)
    weights = {name: torch.full_like(p, 0.25) for name, p in model.named_parameters()}
    vectors = torch.from_numpy(word_vectors_of(variant, data))
    save_model(folder / "model", TrainedModel(variant, True, weights, vectors, data.vocabulary))
    return folder


def make_job(folder: Path, data: TrainingData, variant: VariantConfig) -> Job:
    """The training job of a variant, with a new MLflow run in the folder's database."""
    uri = f"sqlite:///{folder}/mlflow.db"
    client = MlflowClient(uri)
    existing = client.get_experiment_by_name("tests")
    experiment = existing.experiment_id if existing else client.create_experiment("tests")
    return Job(variant, data, uri, client.create_run(experiment).info.run_id)


def train_here(out: Path, job: Job) -> Path:
    """The outputs of two epochs of a job, trained in this process without Ray."""
    trainer = Trainer(new_model(job.variant, job.data)[0], job.variant.training)
    types = job.types()
    for _ in range(2):
        trainer.train_epoch(job.data.train.examples(), types)
    predictions, _ = trainer.predict(job.data.dev.examples(), types)
    scores = {"epoch": 2, "step": trainer.step, "examples_per_second": 1.0, "seconds": 1.0}
    record = TrainingRecord(history=[scores], ended="all epochs were completed")
    checkpoint, outputs = out / "checkpoint", out / "outputs"
    for folder in (checkpoint, outputs):
        folder.mkdir(parents=True)
    save_checkpoint(checkpoint, trainer, record, predictions)
    write_outputs(outputs, job, FitResult(checkpoint, checkpoint, 1.0))
    return outputs
