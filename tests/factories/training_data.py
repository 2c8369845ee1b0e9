"""A small dataset that is ready for training."""

from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from models.configs.presets import preset
from models.configs.variant import VariantConfig
from tasks.data.ingest import ingest_articles
from tasks.data.schema import Article
from tasks.datasets.tiny import generate
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.text.build_vocabulary import VocabularyParameters, build_vocabulary
from tasks.text.encode import encode_split
from tasks.text.split_texts import wanted_words
from tasks.training.inputs import SplitFolders, TrainingData
from tasks.training.worker import Job


def prepare(folder: Path, articles: int = 4) -> TrainingData:
    """A train split of `articles` articles, and dev and validation splits of one article each.

    Each article has 25 questions.
    """
    train, dev = generate(7, articles, 1, 5)
    squad = {"train": train, "dev": dev, "validation": generate(8, articles, 1, 5)[1]}
    splits = {name: SplitFolders(folder / name, folder / f"encoded-{name}") for name in squad}
    vectors, vocabulary = folder / "vectors", folder / "vocabulary"
    for part in (vectors, vocabulary):
        part.mkdir()
    for name, folders in splits.items():
        folders.ingested.mkdir()
        ingest_articles(map(Article.model_validate, squad[name]["data"]), folders.ingested)
    ingested = [folders.ingested for folders in splits.values()]
    parameters = VocabularyParameters(pretrained_words=0)
    select_vectors(vectors, PACKAGED, wanted_words(ingested, parameters.lower_case), 0)
    build_vocabulary(vocabulary, ingested[0], ingested[1:], vectors, parameters)
    for folders in splits.values():
        folders.encoded.mkdir()
        encode_split(folders.encoded, folders.ingested, vocabulary)
    return TrainingData(vocabulary=vocabulary, vectors=vectors, **splits)


def small(**changes: Any) -> VariantConfig:
    """`char`, small enough to train in seconds."""
    small = {"hidden_size": 8, "optimizer": "adam", "learning_rate": 0.01, "batch_size": 12}
    return preset("char").with_changes(**{**small, **changes})


def make_job(folder: Path, data: TrainingData, variant: VariantConfig) -> Job:
    """The training job of a variant, with a new MLflow run in the folder's database."""
    uri = f"sqlite:///{folder}/mlflow.db"
    client = MlflowClient(uri)
    existing = client.get_experiment_by_name("tests")
    experiment = existing.experiment_id if existing else client.create_experiment("tests")
    return Job(variant, data, uri, client.create_run(experiment).info.run_id)
