"""Reports that workers send to the driver, and the history entries of a training's epochs."""

import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from infra.progress import Progress
from models.configs.variant import VariantConfig
from models.trainer import Epoch, Reading, Trainer
from tasks.evaluation.epoch_scores import STOPPING_F1

# The dev F1 target of DAWNBench; the training seconds needed to reach it are a metric.
TARGET_F1 = 75.0

HistoryEntry = dict[str, Any]
History = list[HistoryEntry]


def history_entry(
    trainer: Trainer, epoch: Epoch, scores: dict[str, float], history: History
) -> HistoryEntry:
    """An epoch's entry in the history, under MLflow's metric names.

    `seconds` is the training time since the start, with the checkpoints within epochs.
    `elapsed_seconds` also includes evaluations, and the checkpoints after them.
    """
    entry = {
        "epoch": trainer.epoch,
        "step": trainer.step,
        "train/nll": epoch.nll,
        **scores,
        "examples_per_second": epoch.examples_per_second,
        "padding_ratio": epoch.padding_ratio,
        "peak_memory_bytes": _peak_memory(trainer.device),
        "seconds": epoch.seconds + (history[-1]["seconds"] if history else 0.0),
        "elapsed_seconds": trainer.seconds,
    }
    reached = seconds_to([*history, entry], TARGET_F1)
    return entry if reached is None else {**entry, "seconds_to_f1_75": reached}


def stopping_f1(entry: Mapping[str, float], missing: float) -> float:
    """The F1 by which epochs are compared: on the part of validation that stops trainings, or on
    all of it if it chooses no epoch; `missing` without validation."""
    return entry.get(STOPPING_F1, entry.get("validation/f1", missing))


def seconds_to(history: History, f1: float) -> float | None:
    """Training seconds until dev F1 first reached `f1`; None if it never did."""
    return next((entry["seconds"] for entry in history if entry["dev/f1"] >= f1), None)


@dataclass(frozen=True)
class TrainingProgress(Progress):
    """Progress of a training, in examples over all its epochs; it may stop earlier."""

    epoch: int
    epochs: int
    step: int  # of the epoch
    steps: int  # in each epoch

    @property
    def title(self) -> str:
        """The variant and its epoch."""
        return f"{self.name} epoch {self.epoch}/{self.epochs}"

    @property
    def text(self) -> str:
        """Loss, rate and time left."""
        return f"{self.details}  {self.rate:.0f} examples/s  {self.time_left}"

    def __str__(self) -> str:
        """The progress as one line."""
        return f"{self.title} step {self.step}/{self.steps}  {self.text}"


def training_progress(variant: VariantConfig, epoch: int, reading: Reading) -> TrainingProgress:
    """Progress of a training at a reading in an epoch (1, 2, …)."""
    training = variant.training
    steps_done = (epoch - 1) * reading.steps_in_epoch + reading.epoch_step
    return TrainingProgress(
        name=variant.name,
        done=steps_done * training.batch_size,
        total=training.epochs * reading.steps_in_epoch * training.batch_size,
        unit="examples",
        rate=reading.examples_per_second,
        details=f"nll {reading.nlls[-1]:.2f}",
        epoch=epoch,
        epochs=training.epochs,
        step=reading.epoch_step,
        steps=reading.steps_in_epoch,
    )


@dataclass(frozen=True)
class EpochResult:
    """The results of a finished epoch of a variant."""

    variant: str
    entry: HistoryEntry

    def __str__(self) -> str:
        """The results as one line."""
        entry, f1 = self.entry, self.entry.get("validation/f1")
        stopping = f" ({entry[STOPPING_F1]:.2f} for stopping)" if STOPPING_F1 in entry else ""
        validation = "" if f1 is None else f"validation F1 {f1:.2f}{stopping}, "
        return (
            f"{self.variant} epoch {entry['epoch']}: train nll {entry['train/nll']:.3f}, "
            f"{validation}dev nll {entry['dev/nll']:.3f}, EM {entry['dev/em']:.2f}, "
            f"F1 {entry['dev/f1']:.2f}, {entry['examples_per_second']:.0f} examples/s"
        )


# What a worker sends to the driver; a string is a line for the log.
Report = TrainingProgress | EpochResult | str


def _peak_memory(device: torch.device) -> int:
    """Peak memory in bytes: of the GPU if training uses one, else of this process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage: bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
