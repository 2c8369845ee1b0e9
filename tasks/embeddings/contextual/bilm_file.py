"""The file of a language model trained here: weights, vocabulary, and how it was made.

It is one safetensors file, whose header holds sizes and history as JSON.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from infra.errors import UserError
from models.language_model.config import BiLMConfig
from models.language_model.objective import LanguageModel

WORDS = "words"  # a tensor of UTF-8 bytes, with a line feed between words


@dataclass(frozen=True)
class TrainedBiLM:
    """A language model with its softmax, the words that it predicts, and its history."""

    model: LanguageModel
    words: Sequence[str]  # most frequent first; borders and unknown words have classes before them
    history: dict[str, Any]  # as in `tasks.embeddings.formats.store.History`


def save_bilm(file: Path, trained: TrainedBiLM) -> None:
    """Write the file."""
    text = "\n".join(trained.words).encode()
    tensors = {WORDS: torch.frombuffer(bytearray(text), dtype=torch.uint8)}
    tensors |= {
        name: tensor.contiguous().cpu() for name, tensor in trained.model.state_dict().items()
    }
    header = {
        "config": json.dumps(trained.model.bilm.config.to_dict()),
        "history": json.dumps(trained.history),
    }
    save_file(tensors, file, header)


def load_bilm(file: Path) -> TrainedBiLM:
    """The language model in a file that `save_bilm` wrote.

    Raises:
        UserError: the file can't be read, or is not such a file.
    """
    try:
        with safe_open(file, framework="pt") as stored:
            header = stored.metadata()
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        config = BiLMConfig.from_dict(json.loads(header["config"]))
        history = json.loads(header["history"])
        words = bytes(tensors.pop(WORDS).numpy()).decode().split("\n")
        model = LanguageModel(config, len(words) + 2).eval()
        model.load_state_dict(tensors)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{file} can't be read as a language model ({error}). Check the path, or train the "
            "model again."
        ) from error
    return TrainedBiLM(model, words, history)
