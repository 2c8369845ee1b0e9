"""Small language models, and a corpus in which each word determines its neighbours."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.language_model.characters import border_ids, encode_words
from models.language_model.config import BiLMConfig
from models.language_model.corpus import BORDER, Corpus
from models.language_model.objective import LanguageModel
from tasks.embeddings.contextual.bilm_file import TrainedBiLM, save_bilm
from tasks.embeddings.contextual.select_bilm import select_bilm

CONFIG = BiLMConfig(((1, 4), (2, 4), (3, 8)), 1, 16, 16, character_size=4)
WORDS = ["ant", "bee", "cat", "dog", "elk", "a-word-of-more-than-eight-bytes"]


def cyclic_corpus(paragraphs: int = 300, seed: int = 0) -> Corpus:
    """Paragraphs of 4 to 8 words, each of which follows the list from a random word on."""
    rng = np.random.default_rng(seed)
    forward, backward = [], []
    for _ in range(paragraphs):
        words = (rng.integers(len(WORDS)) + np.arange(rng.integers(4, 9))) % len(WORDS) + 1
        forward += [BORDER, *words]
        backward += [BORDER, *words[::-1]]
    return Corpus(
        np.array(forward, np.int32),
        np.array(backward, np.int32),
        np.concatenate([border_ids()[:1], encode_words(WORDS)]),
        border_ids()[1],
        np.array([BORDER, *range(2, 2 + len(WORDS))], np.int32),
    )


def write_bilm(folder: Path, seed: int = 0, lower_case: bool = False) -> Path:
    """Write the file of a language model with random weights, as a training leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = LanguageModel(CONFIG, len(WORDS) + 2)
    history = {"method": "elmo", "corpus": "c" * 64, "lower_case": lower_case}
    save_bilm(folder / "bilm.safetensors", TrainedBiLM(model, WORDS, history))
    return folder / "bilm.safetensors"


def selected_bilm(folder: Path, **changes: Any) -> Path:
    """A folder with a random language model in the form that trainings read."""
    file = write_bilm(folder.with_name(f"{folder.name}-trained"), **changes)
    folder.mkdir()
    select_bilm(folder, file)
    return folder
