"""Progress lines of a training, and the history entries of its epochs."""

import resource
import sys
from typing import Any

import torch

from models.configs.variant import VariantConfig
from models.trainer import Epoch, Reading, Trainer

TARGET_F1 = 75.0
"""The dev F1 target of DAWNBench; the training seconds needed to reach it are a metric."""

History = list[dict[str, Any]]


def history_entry(
    trainer: Trainer, epoch: Epoch, scores: dict[str, float], history: History
) -> dict[str, Any]:
    """An epoch's entry in the history, under MLflow's metric names.

    `seconds` is the training time since the start. `elapsed_seconds` includes evaluations and
    checkpoints.
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


def seconds_to(history: History, f1: float) -> float | None:
    """Training seconds until dev F1 first reached `f1`; None if it never did."""
    return next((entry["seconds"] for entry in history if entry["dev/f1"] >= f1), None)


def progress_line(variant: VariantConfig, epoch: int, reading: Reading) -> str:
    """One line on the progress of training, with the time left if it does not stop early."""
    training = variant.training
    steps_left = reading.steps_in_epoch * (training.epochs - epoch + 1) - reading.epoch_step
    seconds = steps_left * training.batch_size / reading.examples_per_second
    return (
        f"{variant.name} epoch {epoch}/{training.epochs} "
        f"step {reading.epoch_step}/{reading.steps_in_epoch}"
        f"  nll {reading.nlls[-1]:.2f}  {reading.examples_per_second:.0f} examples/s"
        f"  {int(seconds) // 60}:{int(seconds) % 60:02d} left"
    )


def epoch_line(variant: VariantConfig, entry: dict[str, Any]) -> str:
    """One line on the results of an epoch."""
    validation = ""
    if "validation/f1" in entry:
        validation = f"validation F1 {entry['validation/f1']:.2f}, "
    return (
        f"{variant.name} epoch {entry['epoch']}: train nll {entry['train/nll']:.3f}, {validation}"
        f"dev nll {entry['dev/nll']:.3f}, EM {entry['dev/em']:.2f}, F1 {entry['dev/f1']:.2f}, "
        f"{entry['examples_per_second']:.0f} examples/s"
    )


def _peak_memory(device: torch.device) -> int:
    """Peak memory in bytes: of the GPU if training uses one, else of this process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage: bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
