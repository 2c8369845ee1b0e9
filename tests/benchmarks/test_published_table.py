"""The table of published scores, from small trainings with an untrained model."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks import published_table
from benchmarks.published_table import Trained, bootstrap
from infra.artifacts.manifest import digest_of
from models.predict import predict
from tasks.data.ingest import ingest_articles
from tasks.data.schema import Article
from tasks.datasets.tiny import generate
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.formats.store import load_word_vectors
from tasks.evaluation.evaluate import evaluate, load_split, write_predictions
from tasks.evaluation.metrics import best_threshold
from tasks.inference.model_folder import TrainedModel, save_model
from tasks.text.build_vocabulary import VocabularyParameters, build_vocabulary, wanted_words
from tasks.text.encode import encode_split
from tasks.text.encoded import load_encoded, load_types
from tasks.training.initialization import new_model
from tasks.training.inputs import SplitFolders, TrainingData
from tests.factories.training_data import small


def new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def half_unanswerable(seed: int) -> list[Article]:
    """Generated articles; every second question has no answer."""
    data = generate(seed, 1, 1, 6)[0]["data"]
    for article in data:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"][::2]:
                question |= {"answers": [], "is_impossible": True}
    return [Article.model_validate(article) for article in data]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    """The stages of ingested and encoded splits, and of a vocabulary."""
    stages = tmp_path_factory.mktemp("root") / "stages"
    names = ("train", "validation", "dev")
    splits = {
        name: SplitFolders(new(stages / "split" / name), new(stages / "encode" / name))
        for name in names
    }
    for seed, folders in enumerate(splits.values()):
        ingest_articles(half_unanswerable(seed), folders.ingested)
    ingested = [folders.ingested for folders in splits.values()]
    vectors, vocabulary = new(stages / "select-vectors" / "a"), new(stages / "vocabulary" / "a")
    parameters = VocabularyParameters(pretrained_words=0)
    select_vectors(vectors, PACKAGED, wanted_words(ingested, parameters.lower_case), 0)
    build_vocabulary(vocabulary, ingested[0], ingested[1:], vectors, parameters)
    for folders in splits.values():
        encode_split(folders.encoded, folders.ingested, vocabulary)
    return TrainingData(vocabulary=vocabulary, vectors=vectors, **splits)


def write_training(data: TrainingData, seed: int) -> Path:
    """The folder of a stage `train` that ended before its first step."""
    variant = small(seed=seed)
    model, _ = new_model(variant, data)
    out = new(data.vocabulary.parents[1] / "train" / str(seed))
    assert data.validation is not None
    vectors = load_word_vectors(data.vocabulary, data.vectors, "zero", seed)
    weights = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    save_model(
        out / "model",
        TrainedModel(variant, True, weights, torch.from_numpy(vectors), data.vocabulary),
    )
    scores = {}
    for name, folders in (("validation", data.validation), ("dev", data.dev)):
        split = load_split(folders.ingested)
        answers, _ = predict(
            model.eval(), load_encoded(folders.encoded), load_types(data.vocabulary), 15, None
        )
        evaluation = evaluate(split, answers)
        scores[f"{name}/f1"] = evaluation.scores.f1
        if name == "dev":
            write_predictions(out / "predictions.parquet", split, evaluation)
    (out / "history.json").write_text(json.dumps([scores]))
    folders_of = {
        "train": vars(data.train),
        "validation": vars(data.validation),
        "dev": vars(data.dev),
        "vocabulary": data.vocabulary,
    }

    def digests(value: Any) -> Any:
        if isinstance(value, Path):
            return digest_of(str(value))
        return value and {name: digests(item) for name, item in value.items()}

    of_splits = (folder for split in data.splits.values() for folder in vars(split).values())
    leaves = [data.vocabulary, *filter(None, of_splits)]  # without contextual layers
    manifest = {
        "inputs": {"variant": variant.to_dict(), "data": digests(folders_of)},
        "made_from": [
            {"stage": f.parent.name, "key": f.name, "digest": digest_of(str(f))} for f in leaves
        ],
        "git": "abc",
        "finished": "2026-11-24T12:00:00+00:00",
        "facts": {
            "variant": "char",
            "epoch": 1,
            "scores": {"dev/nll": 3.25, "dev/nll_within": 3.5},
        },
    }
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


@pytest.fixture(scope="module")
def trainings(data: TrainingData) -> list[Path]:
    return [write_training(data, seed) for seed in (0, 1)]


def test_writes_one_row_for_two_seeds_and_no_text(
    data: TrainingData, trainings: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["published_table", str(tmp_path), *map(str, trainings)])
    published_table.main()
    result = json.loads((tmp_path / "published.json").read_text())
    everything, within = result["table"]
    assert (everything["variant"], everything["seeds"]) == ("char", "0, 1")
    assert (everything["NLL"], within["NLL"]) == ("3.25", "3.50")
    assert within["published EM / F1 / NLL / AvNA"] == "58.14 / 61.26 / 2.97 / 66.78"
    dev = load_split(data.dev.ingested)
    expected = []
    for folder in trainings:
        trained = Trained(folder)
        assert data.validation is not None
        validation = load_split(data.validation.ingested)
        threshold = best_threshold(validation, trained.validation_predictions(), 0.5)
        answers, _ = predict(
            new_model(small(seed=int(folder.name)), data)[0].eval(),
            load_encoded(data.dev.encoded),
            load_types(data.vocabulary),
            15,
            None,
        )
        expected.append(evaluate(dev, answers, threshold).scores)
    for column in ("em", "f1", "avna"):
        title = {"em": "EM", "f1": "F1", "avna": "AvNA"}[column]
        mean = np.mean([getattr(scores, column) for scores in expected])
        assert float(everything[title]) == pytest.approx(mean, abs=0.006)
    assert float(everything["oracle F1"]) >= float(everything["F1"])
    table = pq.read_table(tmp_path / "char-1-epochs-seed-0.parquet")
    assert table["id"].to_pylist() == dev.ids
    assert [str(t) for t in table.schema.types].count("string") == 1, "only the id is text"
    assert "| char | 1 | 0, 1 |" in (tmp_path / "published.md").read_text()


def test_refuses_a_model_with_other_scores_than_logged(trainings: list[Path]) -> None:
    history = trainings[0] / "history.json"
    history.write_text(json.dumps([{"validation/f1": 99.0}]))
    with pytest.raises(SystemExit, match=r"the saved model has F1 .* training logged 99\.00"):
        published_table.evaluate_training(Trained(trainings[0]), 0.5)


def test_interval_covers_questions_and_seeds() -> None:
    random = np.random.default_rng(0)
    before = 100.0 * random.integers(0, 2, (2, 400))
    same = bootstrap(before, before, samples=200)
    assert same.mean == 0 and same.low <= 0 <= same.high
    alone = bootstrap(before[:1] + 3, before[:1], samples=200)
    assert (alone.mean, alone.low, alone.high) == pytest.approx((3, 3, 3))
    apart = np.stack([before[0], before[0] + 20])
    assert bootstrap(apart, before[:1], samples=200).high == pytest.approx(20)
