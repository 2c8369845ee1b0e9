"""A language model as trainings, evaluations and served models read it: weights and JSON.

`select_bilm` makes this form of any model. It has neither a softmax nor a vocabulary. Served models
import this file, so it needs only the packages that they have.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from models.arrays import Float32Array
from models.language_model.bilm import BiLM, embed
from models.language_model.characters import encode_words
from models.language_model.config import BiLMConfig
from models.modules.rnn import keep_float32
from tasks.text.vocabulary import case_key

WEIGHTS, SETTINGS = FILES = "bilm.safetensors", "bilm.json"
BATCH_TOKENS = 8_192  # in one forward pass, padding included
BATCH_WORDS = 1_024  # in one pass of the character encoder alone


@dataclass(frozen=True)
class FrozenBiLM:
    """A language model, and whether it reads words in lower case."""

    bilm: BiLM
    lower_case: bool

    def save(self, folder: Path) -> None:
        """Write bilm.safetensors and bilm.json."""
        weights = self.bilm.state_dict().items()
        save_file({name: tensor.contiguous() for name, tensor in weights}, folder / WEIGHTS)
        settings = {"config": self.bilm.config.to_dict(), "lower_case": self.lower_case}
        (folder / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The model that `save` wrote to a folder."""
        settings = _settings(folder)
        bilm = BiLM(BiLMConfig.from_dict(settings["config"])).eval()
        bilm.load_state_dict(load_file(folder / WEIGHTS))
        return cls(bilm, settings["lower_case"])

    def on_gpu(self) -> Self:
        """This model, moved to a GPU if there is one."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        keep_float32(device)
        self.bilm.to(device)
        return self

    def layers(
        self, texts: Sequence[Sequence[str]], selected: int | slice = slice(None)
    ) -> list[Float32Array]:
        """The layers of each text's words, (words, layers, size), or (words, size) of one selected
        layer. Each text is one sequence, and is read on its own, whatever others there are."""
        out: list[Float32Array] = [np.empty(0, np.float32)] * len(texts)
        for rows in _batches([len(text) for text in texts]):
            words = [[case_key(word, self.lower_case) for word in texts[row]] for row in rows]
            vectors, _ = embed(self.bilm, words)
            for row, layers in zip(rows, vectors, strict=True):
                out[row] = layers.transpose(1, 0, 2)[:, selected].copy()
        return out

    @torch.inference_mode()
    def word_vectors(self, words: Sequence[str]) -> Float32Array:
        """Layer 0 of some words, (words, size), which does not depend on their sentences."""
        encoder = self.bilm.encoder
        ids = torch.from_numpy(encode_words([case_key(word, self.lower_case) for word in words]))
        parts = torch.split(ids.long().to(encoder.embedding.weight.device), BATCH_WORDS)
        vectors: Float32Array = torch.cat([encoder(part) for part in parts]).float().cpu().numpy()
        return np.concatenate([vectors, vectors], 1)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of similar lengths that fit in a forward pass together."""
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if rows and (len(rows) + 1) * (lengths[row] + 2) > BATCH_TOKENS:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def has_bilm(folder: Path) -> bool:
    """Whether a model folder contains a language model."""
    return (folder / SETTINGS).is_file()


def layers_shape(folder: Path) -> tuple[int, int]:
    """The number of layers and the vector size of the model in a folder."""
    return BiLMConfig.from_dict(_settings(folder)["config"]).layers_shape


def _settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    return settings
