"""Training checkpoints: folders with tensors as safetensors and numbers as JSON, without pickles.

The first worker writes the shared state. Every worker adds the state of its own random generators.

Ray Train writes checkpoint files and the list of checkpoints in place. A process that is killed
during a write would leave an unreadable list, from which training could not resume. Therefore Ray
gets a file system in which a file has its name only when it is complete (`infra/storage/store.py`).
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from models.optim import with_prefix
from models.span_decoding import Predictions
from models.trainer import Trainer

TENSORS, NUMBERS, PREDICTIONS = "state.safetensors", "state.json", "predictions.safetensors"


@dataclass
class TrainingRecord:
    """The results of a training so far."""

    # One entry per finished epoch, under MLflow's metric names.
    history: list[dict[str, Any]] = field(default_factory=list)
    # Why training ended, as a clause; None while it runs.
    ended: str | None = None
    # Corners of `operating_points` on validation after the latest epoch; empty without a threshold.
    operating_points: list[list[float]] = field(default_factory=list)
    # Seconds from the start of the process that wrote the checkpoint to the checkpoint.
    loop_seconds: float = 0.0
    # Losses of steps that are not part of a metric yet.
    unlogged_nlls: list[float] = field(default_factory=list)
    # Metrics that have not been sent to MLflow yet.
    unsent: list[list[Any]] = field(default_factory=list)


def save_checkpoint(
    folder: Path, trainer: Trainer, record: TrainingRecord, predictions: Predictions | None
) -> None:
    """Write this worker's part of a checkpoint, from which training resumes or is finished.

    `predictions` are the answers to the evaluation questions, if an epoch has just ended.
    """
    save_file(trainer.random_state(), folder / _random_state_file(trainer))
    if trainer.rank > 0:
        return
    tensors = trainer.tensors().items()
    save_file({name: tensor.contiguous().cpu() for name, tensor in tensors}, folder / TENSORS)
    numbers = {
        "counters": trainer.counters(),
        "record": asdict(record),
        "threads": torch.get_num_threads(),
    }
    (folder / NUMBERS).write_text(json.dumps(numbers), encoding="utf-8")
    if predictions is not None:
        save_predictions(folder / PREDICTIONS, predictions)


def resume_from(folder: Path, trainer: Trainer) -> TrainingRecord:
    """Restore the trainer from a checkpoint. Returns the record up to the checkpoint.

    Also restores the number of threads, because it affects the rounding of sums.
    """
    random_state = folder / _random_state_file(trainer)
    numbers = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    torch.set_num_threads(numbers["threads"])
    trainer.resume(
        load_file(folder / TENSORS),
        load_file(random_state) if random_state.exists() else {},
        numbers["counters"],
    )
    return load_record(folder)


def _random_state_file(trainer: Trainer) -> str:
    return f"random-{trainer.rank}-of-{trainer.world_size}.safetensors"


def load_record(folder: Path) -> TrainingRecord:
    """The record of the training up to the checkpoint."""
    return TrainingRecord(**json.loads((folder / NUMBERS).read_text(encoding="utf-8"))["record"])


def save_predictions(file: Path, predictions: Predictions) -> None:
    """Write predictions for the questions of a split."""
    arrays = {name: np.asarray(array) for name, array in vars(predictions).items()}
    save_arrays(arrays, file)


def load_predictions(file: Path) -> Predictions:
    """The predictions that `save_predictions` wrote."""
    return Predictions(**load_arrays(file))


def averaged_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The averaged weights, which are evaluated and served, by parameter name."""
    return with_prefix(load_file(folder / TENSORS), "averaged.")
