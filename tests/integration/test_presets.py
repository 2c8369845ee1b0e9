"""Presets on real questions: memorized, saved, loaded and queried.

`make test` trains small presets that together have every kind of layer; `make test-all` trains
every preset at its full size.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from models.batching import Examples, make_batch
from models.bidaf import BiDAF
from models.configs.presets import PRESETS, preset
from models.configs.variant import VariantConfig
from models.trainer import Trainer
from tasks.data.ingest import ingest_articles
from tasks.data.readers import read_articles
from tasks.embeddings.contextual.frozen_bilm import layers_shape
from tasks.embeddings.contextual.stored_layers import write_layers
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import NO_VECTORS, PACKAGED
from tasks.embeddings.formats.store import load_word_vectors
from tasks.evaluation.evaluate import evaluate, load_split
from tasks.inference.model_folder import TrainedModel, save_model
from tasks.inference.predictor import Predictor
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tasks.text.encode import encode_split
from tasks.text.encoded import load_types
from tasks.text.split_texts import wanted_words
from tasks.text.vocabulary import Lexicon
from tasks.training.inputs import SplitFolders
from tests.factories.answers import COMMON, LONG, STRANGE, is_token_span, same_answers
from tests.factories.language_models import selected_bilm

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1500)]

EPOCHS = 150
MEMORIZED_NLL = 0.05  # nats per question; exact match is computed only below it


def short_paragraphs(data: Path) -> Iterator[dict[str, object]]:
    """Short contexts with two answerable and two unanswerable questions."""
    for article in json.loads((data / "squad" / "cs224n-dev-v2.0.json").read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            kinds = [[q for q in paragraph["qas"] if q["is_impossible"] == k] for k in (0, 1)]
            if len(paragraph["context"]) < 400 and all(len(kind) >= 2 for kind in kinds):
                yield {"context": paragraph["context"], "qas": [*kinds[0][:2], *kinds[1][:2]]}


@dataclass(frozen=True)
class EncodedQuestions:
    """Real questions, encoded, with or without word vectors."""

    folder: Path
    questions: int
    bilm: Path | None  # folder of a language model with random weights, for contextual vectors

    def examples(self) -> Examples:
        layers = None if self.bilm is None else self.folder / "layers"
        return SplitFolders(self.folder / "split", self.folder / "encoded", layers).examples()

    def trainer(self, variant: VariantConfig) -> Trainer:
        vectors = load_word_vectors(self.folder / "vocabulary", self.folder / "vectors")
        lexicon = Lexicon.load(self.folder / "vocabulary")
        torch.manual_seed(variant.training.seed)
        characters = len(lexicon.character_indices) + 2
        shape = (0, 0) if self.bilm is None else layers_shape(self.bilm)
        model = BiDAF(variant.model, torch.from_numpy(vectors), characters, layers_shape=shape)
        return Trainer(model, variant.training)

    def save(self, trainer: Trainer, variant: VariantConfig) -> Path:
        vectors = load_word_vectors(self.folder / "vocabulary", self.folder / "vectors")
        out = self.folder / variant.name
        with trainer.averages.in_use():
            weights = {name: p.detach() for name, p in trainer.model.named_parameters()}
            words = torch.from_numpy(vectors)
            vocabulary = self.folder / "vocabulary"
            save_model(out, TrainedModel(variant, True, weights, words, vocabulary, bilm=self.bilm))
        return out


@dataclass(frozen=True)
class Case:
    """A preset and the sizes for its training; `hidden_size` None keeps the preset's own."""

    name: str
    hidden_size: int | None = None
    paragraphs: int = 8
    batch_size: int = 16
    learning_rate: float = 0.002

    def __str__(self) -> str:
        return f"{self.name}-{'small' if self.hidden_size else 'full'}"

    def variant(self) -> VariantConfig:
        full = preset(self.name)
        if full.model.contextual is not None:
            full = full.with_changes(contextual=replace(full.model.contextual, dropout=0.0))
        return full.with_changes(
            hidden_size=self.hidden_size or full.model.hidden_size,
            optimizer="adam",
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            clip_norm=5.0,
            dropout=0.0,
            ema_decay=0.5,
        )


SMALL = {"hidden_size": 24, "paragraphs": 2, "batch_size": 4, "learning_rate": 0.005}
CASES = [Case(name, **SMALL) for name in ("char-only", "char-selfattn", "docqa")]  # type: ignore[arg-type]
CASES += [pytest.param(Case(name), marks=pytest.mark.full) for name in PRESETS]  # type: ignore[misc]


def encode_questions(
    folder: Path, data: Path, source: str, count: int, contextual: bool
) -> EncodedQuestions:
    for name in ("split", "vectors", "vocabulary", "encoded"):
        (folder / name).mkdir()
    paragraphs = [*islice(short_paragraphs(data), count)]
    articles = {"version": "v2.0", "data": [{"title": "made", "paragraphs": paragraphs}]}
    (folder / "questions.json").write_text(json.dumps(articles), "utf-8")
    ingest_articles(read_articles(folder / "questions.json"), folder / "split")
    parameters = VocabularyConfig(pretrained_words=0, min_character_count=1)
    wanted = wanted_words([folder / "split"], parameters.lower_case)
    select_vectors(folder / "vectors", source, wanted, 0)
    build_vocabulary(folder / "vocabulary", folder / "split", [], folder / "vectors", parameters)
    encode_split(folder / "encoded", folder / "split", folder / "vocabulary")
    if not contextual:
        return EncodedQuestions(folder, 4 * count, None)
    bilm = selected_bilm(folder / "bilm")
    (folder / "layers").mkdir()
    write_layers(folder / "layers", folder / "split", bilm)
    return EncodedQuestions(folder, 4 * count, bilm)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_preset_memorizes_questions_and_is_served(
    case: Case, tmp_path: Path, shared_data: Path
) -> None:
    variant = case.variant()
    source = PACKAGED if variant.model.word_vectors else NO_VECTORS
    contextual = variant.model.contextual is not None
    data = encode_questions(tmp_path, shared_data, source, case.paragraphs, contextual)
    examples, types = data.examples(), load_types(data.folder / "vocabulary")
    assert len(examples) == data.questions
    split, trainer = load_split(data.folder / "split"), data.trainer(variant)

    def exact_match() -> float:
        predictions, _ = trainer.predict(examples, types)
        return evaluate(split, predictions).scores.em

    while trainer.train_epoch(examples, types).nll > MEMORIZED_NLL or exact_match() < 100:
        assert trainer.epoch < EPOCHS

    predictor = Predictor.load(data.save(trainer, variant))
    batch = make_batch(examples, types, np.arange(data.questions), trainer.model.max_characters)
    with torch.no_grad(), trainer.averages.in_use():
        trained, loaded = trainer.model.eval()(batch), predictor.model.eval()(batch)
    assert all(torch.equal(a, b) for a, b in zip(trained, loaded, strict=True))

    pairs = [*COMMON, *STRANGE.values(), LONG]
    together = predictor.answer(pairs)
    for pair, row in zip(pairs, together, strict=True):
        assert same_answers(row, predictor.answer([pair])[0]), pair
        if row["answer"]:
            assert is_token_span(row, pair[1], variant.training.max_answer_tokens)
