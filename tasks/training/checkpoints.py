"""A training's state in a folder: tensors as safetensors, numbers as JSON, no pickles.

The first worker writes what all share; every worker adds the state of its own random generators.
"""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from models.configs.variant import TrainingConfig
from models.span_decoding import Predictions
from models.trainer import Trainer

TENSORS, NUMBERS, PREDICTIONS = "state.safetensors", "state.json", "predictions.safetensors"


@dataclass
class Record:
    """What a training has to tell so far."""

    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry per finished epoch, under MLflow's metric names."""
    ended: str | None = None
    """Why it ended, as a clause; None while it goes on."""
    loop_seconds: float = 0.0
    """From the start of the process that wrote this until then."""
    unlogged_nlls: list[float] = field(default_factory=list)
    """Losses of steps that are part of no metric yet."""
    unsent: list[list[Any]] = field(default_factory=list)
    """Metrics that MLflow has not been sent yet."""


def save_checkpoint(
    folder: Path, trainer: Trainer, record: Record, predictions: Predictions | None
) -> None:
    """Write a worker's part of all that a resumed training, or the finished one, needs.

    `predictions`: the answers to the evaluation questions, where an epoch has just ended.
    """
    save_file(trainer.random_state(), folder / _random_state_file(trainer))
    if trainer.rank > 0:
        return
    tensors = {name: tensor.contiguous().cpu() for name, tensor in trainer.tensors().items()}
    save_file(tensors, folder / TENSORS)
    numbers = {
        "counters": trainer.counters(),
        "record": asdict(record),
        "threads": torch.get_num_threads(),
    }
    (folder / NUMBERS).write_text(json.dumps(numbers), encoding="utf-8")
    if predictions is not None:
        arrays = {name: np.asarray(array) for name, array in vars(predictions).items()}
        save_arrays(arrays, folder / PREDICTIONS)


def resume_from(folder: Path, trainer: Trainer) -> Record:
    """Put a trainer where the checkpoint was taken; returns the record until then. The process
    computes on as many threads as then, since sums are rounded otherwise on other ones."""
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


def load_record(folder: Path) -> Record:
    """What the training told until the checkpoint."""
    return Record(**json.loads((folder / NUMBERS).read_text(encoding="utf-8"))["record"])


def load_predictions(folder: Path) -> Predictions:
    """The answers given to the evaluation questions after the last epoch."""
    return Predictions(**load_arrays(folder / PREDICTIONS))


def averaged_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights to evaluate and to serve, by parameter name."""
    prefix = "averaged."
    tensors = load_file(folder / TENSORS)
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


class CheckpointSchedule:
    """When a checkpoint within an epoch is due; asked of all workers with the same numbers."""

    def __init__(self, config: TrainingConfig, step: int) -> None:
        self.steps = config.checkpoint_steps or math.inf
        self.seconds = 60 * (config.checkpoint_minutes or math.inf)
        self.last_step = step
        self.last_seconds: float | None = None  # counted from the first question on: clocks differ

    def is_due(self, step: int, seconds: float) -> bool:
        if self.last_seconds is None:
            self.last_seconds = seconds
        late = step - self.last_step >= self.steps or seconds - self.last_seconds >= self.seconds
        if late:
            self.last_step, self.last_seconds = step, seconds
        return late
