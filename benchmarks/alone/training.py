"""A training in one process, with checkpoints, and its results."""

import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch

from benchmarks.alone.packed import Packed
from benchmarks.common.clock import summary, write
from benchmarks.common.machine import machine, today
from models.bidaf import BiDAF
from models.configs.variant import TrainingConfig, VariantConfig
from models.early_stopping import best_epoch, is_out_of_time, stop_reason
from models.sliding_windows import count_trainable
from models.trainer import Reading, Trainer
from tasks.evaluation.epoch_scores import epoch_scores
from tasks.training.checkpoints import TrainingRecord, resume_from, save_checkpoint
from tasks.training.epoch_log import history_entry, stopping_f1


def name_of(variant: VariantConfig) -> str:
    """The name of a training's files: variant, seed, and a digest of all settings."""
    digest = hashlib.sha256(json.dumps(variant.to_dict(), sort_keys=True).encode()).hexdigest()
    return f"{variant.name}-seed{variant.training.seed}-{digest[:6]}"


def make_trainer(variant: VariantConfig, packed: Packed) -> Trainer:
    """The variant's trainer, on the GPU if there is one, with weights drawn from the seed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(variant.training.seed)
    model = BiDAF(variant.model, packed.vectors, packed.about["characters"])
    return Trainer(model, variant.training, wrap=lambda module: module.to(device))


def train_variant(
    variant: VariantConfig, packed: Packed, out: Path, command: str
) -> TrainingRecord:
    """Train to the end, from the checkpoint if there is one. After each epoch, evaluate, write a
    checkpoint beside the data, and the results to `out`."""
    trainer = make_trainer(variant, packed)
    checkpoint = checkpoint_of(variant, packed)
    replaced = _replaced(checkpoint)
    if replaced.exists() and not checkpoint.exists():  # killed between the two renames of `_save`
        replaced.rename(checkpoint)
    record = resume_from(checkpoint, trainer) if checkpoint.exists() else TrainingRecord()

    def has_time_left(reading: Reading) -> bool:
        return not is_out_of_time(variant.training, reading.seconds)

    while record.ended is None:
        epoch = trainer.train_epoch(packed.train, packed.types, has_time_left)
        answered = {
            name: trainer.predict(own.examples, packed.types)
            for name, own in packed.evaluated.items()
        }
        scores = epoch_scores(packed.evaluated, answered, packed.train, variant.training)
        record.history.append(history_entry(trainer, epoch, scores, record.history))
        record.ended = stop_reason(variant.training, _f1s(record), trainer.seconds)
        _save(checkpoint, trainer, record)
        write(out, name_of(variant), result_of(variant, packed, record, command))
        print(name_of(variant), json.dumps(record.history[-1]), flush=True)
    # `out` may be another folder than before.
    write(out, name_of(variant), result_of(variant, packed, record, command))
    return record


def checkpoint_of(variant: VariantConfig, packed: Packed) -> Path:
    """The folder of a training's checkpoint."""
    return packed.folder / "checkpoints" / name_of(variant)


def _replaced(checkpoint: Path) -> Path:
    """Where the earlier checkpoint is while another one replaces it."""
    return checkpoint.with_name(f".{checkpoint.name}-replaced")


def _f1s(record: TrainingRecord) -> list[float]:
    """Validation F1 of each epoch; dev must not select one."""
    return [stopping_f1(entry, math.nan) for entry in record.history]


def kept_epoch(training: TrainingConfig, record: TrainingRecord) -> int:
    """The epoch that counts, from 1: with patience the best one on validation, else the last."""
    f1s = _f1s(record)
    return len(f1s) if training.patience is None else best_epoch(f1s)


def _save(checkpoint: Path, trainer: Trainer, record: TrainingRecord) -> None:
    """Replace the checkpoint."""
    new = checkpoint.with_name(f".{checkpoint.name}")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    save_checkpoint(new, trainer, record, None)
    replaced = _replaced(checkpoint)
    shutil.rmtree(replaced, ignore_errors=True)
    if checkpoint.exists():
        checkpoint.rename(replaced)
    new.rename(checkpoint)
    shutil.rmtree(replaced, ignore_errors=True)


def result_of(
    variant: VariantConfig, packed: Packed, record: TrainingRecord, command: str
) -> dict[str, Any]:
    """The facts about a training."""
    return {
        "command": command,
        "date": today(),
        "machine": machine(),
        "data": {
            "dataset": packed.about["dataset"],
            "trained_on": count_trainable(packed.train, variant.training),
            "questions": len(packed.evaluated["dev"].split),
        },
        "config": variant.to_dict(),
        "ended": record.ended,
        "kept_epoch": kept_epoch(variant.training, record),
        **summary(record.history),
        "history": record.history,
    }
