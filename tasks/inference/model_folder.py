"""Writes the folder of a trained model, which `Predictor.load` reads."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from models.configs.variant import VariantConfig
from tasks.embeddings.formats.word_vectors import SUBWORDS


def save_model(
    folder: Path,
    variant: VariantConfig,
    allow_no_answer: bool,
    weights: dict[str, torch.Tensor],
    word_vectors: torch.Tensor,
    vocabulary: Path,
    subwords: Path | None = None,
    threshold: float | None = None,
) -> None:
    """Write a self-contained, relocatable model folder for `Predictor.load`.

    `threshold` is the no-answer threshold chosen on validation; callers opt in to it. `subwords` is
    a file of n-grams from which the vectors of OOV words are composed.
    """
    folder.mkdir()
    if not variant.model.word_vectors:
        word_vectors = word_vectors[:, :0].contiguous()
    save_file(weights, folder / "weights.safetensors")
    save_file({"word_vectors": word_vectors}, folder / "vectors.safetensors")
    config = {
        "variant": variant.to_dict(),
        "allow_no_answer": allow_no_answer,
        "threshold": threshold,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    for name in ("words.parquet", "characters.parquet"):
        (folder / name).write_bytes((vocabulary / name).read_bytes())
    if subwords is not None:
        shutil.copyfile(subwords, folder / SUBWORDS)
