"""Writes the folder of a trained model, which `Predictor.load` reads."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from models.configs.variant import VariantConfig
from tasks.embeddings.contextual.frozen_bilm import FILES
from tasks.embeddings.formats.word_vectors import SUBWORDS

VECTORS, WORDS = "vectors.safetensors", "words.parquet"
# Files of tens of megabytes that are equal in most models of a dataset.
COMMON_FILES = (VECTORS, WORDS)


@dataclass(frozen=True)
class TrainedModel:
    """A trained model, and where the words and characters are that it knows."""

    variant: VariantConfig
    allow_no_answer: bool
    weights: dict[str, torch.Tensor]
    word_vectors: torch.Tensor  # (words, dimension)
    vocabulary: Path  # folder of the stage `build-vocabulary`
    subwords: Path | None = None  # file of n-grams from which the vectors of OOV words are composed
    threshold: float | None = None  # no-answer threshold chosen on validation; callers opt in to it
    # (threshold, F1 of answerable and of unanswerable questions) for other expected shares of these
    operating_points: Sequence[Sequence[float]] = ()
    bilm: Path | None = None  # folder of the language model, for contextual vectors
    temperature: float = 1.0  # divides the logits, so that probabilities agree with validation


def save_model(folder: Path, model: TrainedModel) -> None:
    """Write a self-contained, relocatable model folder for `Predictor.load`. Word vectors that
    float16 can represent are stored so."""
    folder.mkdir()
    columns = None if model.variant.model.word_vectors else 0
    vectors = model.word_vectors[:, :columns].contiguous()
    half = vectors.half()
    stored = half if torch.equal(half.float(), vectors) else vectors  # see `in_half_precision`
    save_file(model.weights, folder / "weights.safetensors")
    save_file({"word_vectors": stored}, folder / VECTORS)
    config = {
        "variant": model.variant.to_dict(),
        "allow_no_answer": model.allow_no_answer,
        "threshold": model.threshold,
        "operating_points": model.operating_points,
        "temperature": model.temperature,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    for name in (WORDS, "characters.parquet"):
        (folder / name).write_bytes((model.vocabulary / name).read_bytes())
    if model.subwords is not None:
        shutil.copyfile(model.subwords, folder / SUBWORDS)
    if model.bilm is not None:
        for name in FILES:
            shutil.copyfile(model.bilm / name, folder / name)


def load_vectors(folder: Path) -> torch.Tensor:
    """(words, dimension) float32 vectors of a model folder, equal to those that were saved."""
    vectors: torch.Tensor = load_file(folder / VECTORS)["word_vectors"]
    return vectors.float()
