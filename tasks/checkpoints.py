"""A training's state in a folder: tensors as safetensors, numbers as JSON, no pickles."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from models.decoding import Predictions
from models.training import Trainer

TENSORS, NUMBERS, PREDICTIONS = "state.safetensors", "state.json", "predictions.safetensors"


def save_checkpoint(
    folder: Path, trainer: Trainer, history: list[dict[str, Any]], predictions: Predictions
) -> None:
    """Write all that a resumed training, or the finished one, needs."""
    tensors = {name: tensor.contiguous().cpu() for name, tensor in trainer.tensors().items()}
    save_file(tensors, folder / TENSORS)
    numbers = {"counters": trainer.counters(), "history": history}
    (folder / NUMBERS).write_text(json.dumps(numbers), encoding="utf-8")
    save_arrays(
        {name: np.asarray(a) for name, a in vars(predictions).items()}, folder / PREDICTIONS
    )


def resume_from(folder: Path, trainer: Trainer) -> list[dict[str, Any]]:
    """Put a trainer where the checkpoint was taken; returns the history until then."""
    numbers = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    trainer.resume(load_file(folder / TENSORS), numbers["counters"])
    return load_history(folder)


def load_history(folder: Path) -> list[dict[str, Any]]:
    """One entry per finished epoch, under MLflow's metric names."""
    history: list[dict[str, Any]] = json.loads((folder / NUMBERS).read_text("utf-8"))["history"]
    return history


def load_predictions(folder: Path) -> Predictions:
    """The answers given to the evaluation questions after the last epoch."""
    return Predictions(**load_arrays(folder / PREDICTIONS))


def averaged_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights to evaluate and to serve, by parameter name."""
    prefix = "averaged."
    tensors = load_file(folder / TENSORS)
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
