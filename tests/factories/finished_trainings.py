"""Folders of the stage `train` with an untrained model, and of the stages before it."""

import json
from pathlib import Path
from typing import Any

import torch

from infra.artifacts.manifest import digest_of
from models.configs.variant import VariantConfig
from models.predict import predict
from models.span_decoding import Predictions, argmax_threshold
from tasks.data.ingest import ingest_articles
from tasks.data.schema import Article
from tasks.datasets.tiny import generate
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.formats.store import load_word_vectors
from tasks.evaluation.evaluate import evaluate, load_split, write_predictions
from tasks.evaluation.operating_points import OperatingPoint, operating_points
from tasks.inference.model_folder import TrainedModel, save_model
from tasks.inference.trained_contexts import write_trained_contexts
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tasks.text.encode import encode_split
from tasks.text.encoded import load_encoded, load_types
from tasks.text.split_texts import wanted_words
from tasks.training.initialization import new_model
from tasks.training.inputs import SplitFolders, TrainingData
from tests.factories.training_data import small


def new(folder: Path) -> Path:
    """A new folder."""
    folder.mkdir(parents=True)
    return folder


def articles(seed: int) -> list[Article]:
    """Generated articles; every second question has no answer."""
    data = generate(seed, 1, 1, 6)[0]["data"]
    for article in data:
        for paragraph in article["paragraphs"]:
            qas = [qa for qa in paragraph["qas"] if qa["answers"]]
            paragraph["qas"] = qas
            for question in qas[::2]:
                question |= {"answers": [], "is_impossible": True}
    return [Article.model_validate(article) for article in data]


def write_stages(root: Path) -> TrainingData:
    """The stages of ingested and encoded splits, of vectors, and of a vocabulary."""
    stages = root / "stages"
    names = ("train", "validation", "dev")
    splits = {
        name: SplitFolders(new(stages / "split" / name), new(stages / "encode" / name))
        for name in names
    }
    for seed, folders in enumerate(splits.values()):
        ingest_articles(articles(seed), folders.ingested)
    write_facts(splits["train"].ingested, questions=36)
    ingested = [folders.ingested for folders in splits.values()]
    vectors, vocabulary = new(stages / "select-vectors" / "a"), new(stages / "vocabulary" / "a")
    parameters = VocabularyConfig(pretrained_words=0)
    facts = select_vectors(vectors, PACKAGED, wanted_words(ingested, parameters.lower_case), 0)
    write_facts(vectors, **facts)
    build_vocabulary(vocabulary, ingested[0], ingested[1:], vectors, parameters)
    for folders in splits.values():
        encode_split(folders.encoded, folders.ingested, vocabulary)
    return TrainingData(vocabulary=vocabulary, vectors=vectors, **splits)


def write_facts(folder: Path, **facts: Any) -> None:
    """Write a manifest with these facts."""
    (folder / "manifest.json").write_text(json.dumps({"facts": facts}), encoding="utf-8")


def predictions_of(data: TrainingData, variant: VariantConfig, name: str) -> Predictions:
    """The predictions of the variant's untrained model for a split."""
    model, _ = new_model(variant, data)
    examples = load_encoded(data.splits[name].encoded)
    return predict(model.eval(), examples, load_types(data.vocabulary), 15, None)[0]


def write_training(data: TrainingData, name: str, **changes: Any) -> Path:
    """The folder of a stage `train` that ended before its first step, with changed settings."""
    variant = small(**changes)
    model, _ = new_model(variant, data)
    out = write_manifest(data, name, variant)
    vectors = load_word_vectors(data.vocabulary, data.vectors, "zero", variant.training.seed)
    weights = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    allow_no_answer = bool(load_encoded(data.train.encoded).impossible.any())
    points: list[OperatingPoint] = []
    if allow_no_answer:
        assert data.validation is not None
        validation = load_split(data.validation.ingested)
        points = operating_points(validation, predictions_of(data, variant, "validation"))
    trained = TrainedModel(
        variant,
        allow_no_answer,
        weights,
        torch.from_numpy(vectors),
        data.vocabulary,
        operating_points=points,
    )
    save_model(out / "model", trained)
    write_trained_contexts(out / "model", data.train.ingested, None)
    dev = load_split(data.dev.ingested)
    predictions = predictions_of(data, variant, "dev")
    evaluation = evaluate(dev, predictions, argmax_threshold(allow_no_answer))
    write_predictions(out / "predictions.parquet", dev, evaluation)
    history = [{"validation/f1": 10.0, "dev/f1": evaluation.scores.f1}]
    (out / "history.json").write_text(json.dumps(history), encoding="utf-8")
    return out


def write_manifest(data: TrainingData, name: str, variant: VariantConfig) -> Path:
    """The folder of a training of which epoch 1 was kept, with its manifest only."""
    out = new(data.vocabulary.parents[1] / "train" / name)
    folders_of = {
        "train": vars(data.train),
        "validation": vars(data.validation),
        "dev": vars(data.dev),
        "vocabulary": data.vocabulary,
        "vectors": data.vectors,
    }

    def digests(value: Any) -> Any:
        if isinstance(value, Path):
            return digest_of(str(value))
        return value and {key: digests(item) for key, item in value.items()}

    of_splits = (folder for split in data.splits.values() for folder in vars(split).values())
    leaves = [data.vocabulary, data.vectors, *filter(None, of_splits)]
    manifest = {
        "inputs": {"variant": variant.to_dict(), "data": digests(folders_of)},
        "made_from": [
            {"stage": f.parent.name, "key": f.name, "digest": digest_of(str(f))} for f in leaves
        ],
        "git": "abc",
        "finished": "2026-11-24T12:00:00+00:00",
        "facts": {
            "variant": variant.name,
            "epoch": 1,
            "scores": {"dev/nll": 3.25, "dev/nll_within": 3.5},
            "threshold": None,
        },
    }
    (out / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return out
