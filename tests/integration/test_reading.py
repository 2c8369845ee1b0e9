"""The default dataset requires reading, and `char` reads it: three full-size trainings."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from infra.cluster.ray_cluster import allocator_variables
from models.batching import Examples, Ragged, Types
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.trainer import Trainer
from tasks.data.ingest import ingest_articles
from tasks.data.readers import read_articles
from tasks.datasets.catalog import DATASETS
from tasks.datasets.tiny import write_tiny
from tasks.embeddings.formats.store import load_word_vectors
from tasks.evaluation.evaluate import evaluate, load_split
from tasks.text.encode import encode_split
from tasks.text.encoded import load_encoded, load_types
from tests.factories.tiny import best_sentence_candidates, datasets, mean_f1
from tests.factories.vocabularies import write_vocabulary

pytestmark = [pytest.mark.heavy, pytest.mark.full, pytest.mark.timeout(5400)]

MARGIN = 30  # F1 points between a model that reads and anything that doesn't


@dataclass(frozen=True)
class Tiny:
    """The default dataset, encoded."""

    folder: Path

    def examples(self, split: str) -> Examples:
        return load_encoded(self.folder / f"encoded-{split}")

    @property
    def types(self) -> Types:
        return load_types(self.folder / "vocabulary")

    def new_model(self, variant: str) -> Trainer:
        config = preset(variant).with_changes(**DATASETS["tiny"].training)
        vectors = load_word_vectors(self.folder / "vocabulary", self.folder / "vectors")
        characters = pq.read_metadata(self.folder / "vocabulary" / "characters.parquet").num_rows
        torch.manual_seed(config.training.seed)
        model = BiDAF(config.model, torch.from_numpy(vectors), characters)
        return Trainer(model, config.training)

    def f1(self, variant: str, shuffled: bool = False) -> float:
        """Dev F1 of a variant after all its epochs, optionally with shuffled questions."""
        train, dev = self.examples("train"), self.examples("dev")
        if shuffled:
            train, dev = with_shuffled_questions(train), with_shuffled_questions(dev)
        trainer = self.new_model(variant)
        while trainer.epoch < trainer.config.epochs:
            trainer.train_epoch(train, self.types)
        predictions, _ = trainer.predict(dev, self.types)
        return evaluate(load_split(self.folder / "dev"), predictions).scores.f1


def with_shuffled_questions(examples: Examples) -> Examples:
    """The same contexts and answers, with the questions permuted across the examples."""
    order = np.random.default_rng(0).permutation(len(examples))
    rows = [examples.questions[int(row)].tolist() for row in order]
    return replace(examples, questions=Ragged.from_rows(rows))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("tiny")
    names = ("train", "dev", "encoded-train", "encoded-dev")
    train, dev, *encoded = (folder / name for name in names)
    for part in (train, dev, *encoded):
        part.mkdir()
    write_tiny(folder)
    for split in (train, dev):
        ingest_articles(read_articles(folder / f"{split.name}.json"), split)
    _, vocabulary = write_vocabulary(folder, [train, dev])
    for split, out in zip((train, dev), encoded, strict=True):
        encode_split(out, split, vocabulary)
    return Tiny(folder)


@pytest.fixture(scope="module")
def f1(tiny: Tiny) -> dict[str, float]:
    """Dev F1 of `char`, `char` with shuffled questions, and `baseline`, trained in parallel."""
    trainings = {"char": ("char", False), "shuffled": ("char", True), "baseline": ("baseline",)}
    environment = dict(os.environ)
    os.environ.update(allocator_variables(), OMP_NUM_THREADS="1")
    try:
        with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as processes:
            futures = {name: processes.submit(tiny.f1, *args) for name, args in trainings.items()}
            return {name: future.result() for name, future in futures.items()}
    finally:
        os.environ.clear()
        os.environ.update(environment)


def test_word_overlap_scores_far_below_the_model(f1: dict[str, float]) -> None:
    random = Random(0)
    _, dev = datasets()

    def guess(context: str, question: dict[str, str]) -> str:
        candidates = best_sentence_candidates(context, question["question"])
        return random.choice(candidates) if candidates else ""

    assert mean_f1(guess, dev) < f1["char"] - MARGIN


def test_shuffled_questions_lower_the_score(f1: dict[str, float]) -> None:
    assert f1["shuffled"] < f1["char"] - MARGIN


def test_characters_distinguish_unseen_names(f1: dict[str, float]) -> None:
    """No dev name occurs in train or has a vector, so `baseline` cannot distinguish them."""
    assert f1["baseline"] < f1["char"] - MARGIN
