"""Trains against the clock on machines with only torch, numpy and pyarrow: no Ray, no Prefect.

Usage: python -m benchmarks.alone pack FOLDER [--dataset squad-v1.1-recovered]
       python -m benchmarks.alone train FOLDER OUT [--variant char] [--seeds 0 1 2] [--epochs 12]
           [--batch-size 256] [--optimizer adam] [--learning-rate 0.004] [--schedule linear]
           [--warmup-steps 200] [--precision bfloat16] [--max-minutes 60]

`pack` gathers what a training reads (encoded splits, word vectors) in a folder of some tens of
megabytes, which can be copied to such a machine. `train` trains the preset there, on the GPU if
torch finds one. Each seed runs in its own process, all of them in parallel, and writes a TSV file
in DAWNBench's format and a JSON file, as `benchmarks.race` does. With `--profile`, the JSON file
also lists the operators that took most of the time of some steps, and the share of that time in
which the device computed.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from torch.profiler import profile

from benchmarks.common.clock import summary, write
from benchmarks.common.machine import machine, today
from benchmarks.common.operators import shares, times
from models.batching import Examples, Types
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.configs.variant import TrainingConfig, VariantConfig
from models.early_stopping import is_out_of_time, stop_reason
from models.sliding_windows import count_trainable
from models.span_decoding import argmax_threshold
from models.trainer import Reading, Trainer
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split
from tasks.evaluation.metrics import evaluation_metrics
from tasks.text.encoded import load_encoded, load_types
from tasks.training.epoch_log import History, history_entry

# Modules that need more than torch, numpy and pyarrow are imported where they are used.

OVERRIDES = (
    *("epochs", "batch_size", "optimizer", "learning_rate", "schedule", "warmup_steps"),
    *("precision", "max_minutes"),
)
PROFILED = 100


def pack(folder: Path, dataset: str) -> None:
    """Ingest and encode the dataset, and gather in the folder the files that `train` reads."""
    from benchmarks.step import encoded_folders

    gather(folder, dataset, *encoded_folders(dataset))


def gather(
    folder: Path, dataset: str, train: Path, dev: Path, vocabulary: Path, vectors: Path, split: Path
) -> None:
    """Copy encoded splits, vocabulary, vectors and the ingested dev split to the folder."""
    from tasks.embeddings.formats.store import load_word_vectors

    for name, part in {"train": train, "dev": dev, "split": split}.items():
        shutil.copytree(part, folder / name, dirs_exist_ok=True)
    shutil.copy(vocabulary / "types.parquet", folder)
    np.save(folder / "vectors.npy", load_word_vectors(vocabulary, vectors))
    characters = pq.read_metadata(vocabulary / "characters.parquet").num_rows
    about = {"dataset": dataset, "characters": characters}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


@dataclass(frozen=True)
class Packed:
    """The data that `pack` gathered."""

    about: dict[str, Any]
    train: Examples
    dev: Examples
    types: Types
    split: EvaluationSplit
    vectors: torch.Tensor

    @classmethod
    def load(cls, folder: Path) -> "Packed":
        """Load the data from the folder."""
        return cls(
            json.loads((folder / "about.json").read_text(encoding="utf-8")),
            load_encoded(folder / "train"),
            load_encoded(folder / "dev"),
            load_types(folder),
            load_split(folder / "split"),
            torch.from_numpy(np.load(folder / "vectors.npy")),
        )


def make_trainer(variant: VariantConfig, packed: Packed) -> Trainer:
    """The variant's trainer, on the GPU if there is one, with weights drawn from the seed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(variant.training.seed)
    model = BiDAF(variant.model, packed.vectors, packed.about["characters"])
    return Trainer(model, variant.training, wrap=lambda module: module.to(device))


def race(variant: VariantConfig, packed: Packed) -> History:
    """Run a complete training, evaluate dev after each epoch, and return the history."""
    trainer = make_trainer(variant, packed)

    def has_time_left(reading: Reading) -> bool:
        return not is_out_of_time(variant.training, reading.seconds)

    threshold = argmax_threshold(bool(packed.train.impossible.any()))
    history: History = []
    ended = None
    while ended is None:
        epoch = trainer.train_epoch(packed.train, packed.types, has_time_left)
        predictions, _ = trainer.predict(packed.dev, packed.types)
        scores = evaluation_metrics("dev", evaluate(packed.split, predictions, threshold))
        history.append(history_entry(trainer, epoch, scores, history))
        f1s = [float("nan")] * len(history)  # no validation split; dev must not select an epoch
        ended = stop_reason(variant.training, f1s, trainer.seconds)
        print(variant.name, variant.training.seed, json.dumps(history[-1]), flush=True)
    return history


def profile_steps(variant: VariantConfig, packed: Packed) -> dict[str, Any]:
    """Profile steps in the middle of an epoch: seconds per step, the share of them in which the GPU
    computed, and the operators' shares of that time. Call it after `race`, which makes torch choose
    its kernels and allocate memory."""
    trainer = make_trainer(variant, packed)
    on_gpu = trainer.device.type == "cuda"
    profiler = profile()
    clock: list[tuple[int, float]] = []

    def record_step(reading: Reading) -> bool:
        if not clock:
            profiler.start()
        clock.append((reading.epoch_step, time.perf_counter()))
        return reading.epoch_step < PROFILED

    trainer.train_epoch(packed.train, packed.types, record_step)
    profiler.stop()
    (first, began), (last, ended) = clock[0], clock[-1]
    if first == last:
        sys.exit(f"An epoch has only {last} step(s), too few to profile. Reduce --batch-size.")
    operator_seconds = times(profiler, on_gpu)
    return {
        "steps": last - first,
        "seconds_a_step": (ended - began) / (last - first),
        "device_busy": sum(operator_seconds.values()) / (ended - began) if on_gpu else None,
        "operators": shares(operator_seconds),
    }


def configure(arguments: argparse.Namespace, seed: int) -> VariantConfig:
    """The preset with the changes from the command line."""
    overrides = {name: getattr(arguments, name) for name in OVERRIDES}
    changes = {name: value for name, value in overrides.items() if value is not None}
    return preset(arguments.variant).with_changes(seed=seed, **changes)


def train(arguments: argparse.Namespace) -> None:
    """Train one seed in this process, or each of several seeds in its own process."""
    if len(arguments.seeds) > 1:
        _train_in_parallel(arguments.seeds)
        return
    (seed,) = arguments.seeds
    packed, variant = Packed.load(arguments.folder), configure(arguments, seed)
    history = race(variant, packed)
    result = {
        "command": f"python -m benchmarks.alone {' '.join(sys.argv[1:])}",
        "date": today(),
        "machine": machine(),
        "data": {
            "dataset": packed.about["dataset"],
            "trained_on": count_trainable(packed.train, variant.training),
            "questions": len(packed.split),
        },
        "config": variant.to_dict(),
        **summary(history),
        "history": history,
    }
    name = f"{variant.name}-seed{seed}"
    write(arguments.out, name, result)
    if arguments.profile:
        write(arguments.out, name, {**result, "profile": profile_steps(variant, packed)})


def _train_in_parallel(seeds: list[int]) -> None:
    flags = sys.argv[1:]
    first = flags.index("--seeds") + 1
    before, after = flags[:first], flags[first + len(seeds) :]
    command = [sys.executable, "-m", "benchmarks.alone"]
    processes = [subprocess.Popen([*command, *before, str(seed), *after]) for seed in seeds]
    exit_codes = [process.wait() for process in processes]
    if any(exit_codes):
        sys.exit(1)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="gather the data that `train` reads")
    packing.add_argument("folder", type=Path, help="folder for the data")
    packing.add_argument("--dataset", default="squad-v1.1-recovered")
    # No abbreviations: `_train_in_parallel` looks for "--seeds" to start a process for each seed.
    training = commands.add_parser("train", allow_abbrev=False, help="train on the gathered data")
    training.add_argument("folder", type=Path, help="folder that `pack` filled")
    training.add_argument("out", type=Path, help="folder for the results")
    training.add_argument("--variant", default="char", help="preset to train (default: char)")
    training.add_argument("--seeds", type=int, nargs="+", default=[0], help="one process per seed")
    training.add_argument("--profile", action="store_true", help="also profile some steps")
    kinds = {field.name: type(field.default) for field in fields(TrainingConfig)}
    for name in OVERRIDES:
        kind = float if name == "max_minutes" else kinds[name]
        training.add_argument(f"--{name.replace('_', '-')}", type=kind)
    arguments = parser.parse_args()
    if arguments.command == "pack":
        pack(arguments.folder, arguments.dataset)
    else:
        train(arguments)


if __name__ == "__main__":
    main()
