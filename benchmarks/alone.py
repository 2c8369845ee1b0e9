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
from models.early_stopping import is_out_of_time, reason_to_end
from models.sliding_windows import trained_questions
from models.span_decoding import argmax_threshold
from models.trainer import Reading, Trainer
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split
from tasks.evaluation.metrics import measures
from tasks.text.encoded import load_encoded, load_types
from tasks.training.epoch_log import History, entry_of

# Modules that need more than torch, numpy and pyarrow are imported where they are used.

OVERRIDES = (
    *("epochs", "batch_size", "optimizer", "learning_rate", "schedule", "warmup_steps"),
    *("precision", "max_minutes"),
)
PROFILED = 100


def pack(folder: Path, dataset: str) -> None:
    """Ingest and encode the dataset, and gather in the folder the files that `train` reads."""
    from benchmarks.step import prepare

    gather(folder, dataset, *map(Path, prepare(dataset)))


def gather(
    folder: Path, dataset: str, train: Path, dev: Path, vocabulary: Path, vectors: Path, split: Path
) -> None:
    """Copy encoded splits, vocabulary, vectors and the ingested dev split to the folder."""
    from tasks.embeddings.formats.matrix import load_word_vectors

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


def trainer_of(variant: VariantConfig, packed: Packed) -> Trainer:
    """The variant's trainer, on the GPU if there is one, with weights drawn from the seed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(variant.training.seed)
    model = BiDAF(variant.model, packed.vectors, packed.about["characters"])
    return Trainer(model, variant.training, wrap=lambda module: module.to(device))


def race(variant: VariantConfig, packed: Packed) -> History:
    """Run a complete training, evaluate dev after each epoch, and return the history."""
    trainer = trainer_of(variant, packed)

    def in_time(reading: Reading) -> bool:
        return not is_out_of_time(variant.training, reading.seconds)

    threshold = argmax_threshold(bool(packed.train.impossible.any()))
    history: History = []
    ended = None
    while ended is None:
        epoch = trainer.train_epoch(packed.train, packed.types, in_time)
        predictions, _ = trainer.predict(packed.dev, packed.types)
        scores = measures("dev", evaluate(packed.split, predictions, threshold))
        history.append(entry_of(trainer, epoch, scores, history))
        f1s = [float("nan")] * len(history)  # no validation split; dev must not select an epoch
        ended = reason_to_end(variant.training, f1s, trainer.seconds)
        print(variant.name, variant.training.seed, json.dumps(history[-1]), flush=True)
    return history


def profiled(variant: VariantConfig, packed: Packed) -> dict[str, Any]:
    """Profile steps in the middle of an epoch: seconds per step, the share of them in which the GPU
    computed, and the operators' shares of that time. Call it after `race`, which makes torch choose
    its kernels and allocate memory."""
    trainer = trainer_of(variant, packed)
    on_gpu = trainer.device.type == "cuda"
    found = profile()
    clock: list[tuple[int, float]] = []

    def watch(reading: Reading) -> bool:
        if not clock:
            found.start()
        clock.append((reading.of_epoch, time.perf_counter()))
        return reading.of_epoch < PROFILED

    trainer.train_epoch(packed.train, packed.types, watch)
    found.stop()
    (first, began), (last, ended) = clock[0], clock[-1]
    took = times(found, on_gpu)
    return {
        "steps": last - first,
        "seconds_a_step": (ended - began) / (last - first),
        "device_busy": sum(took.values()) / (ended - began) if on_gpu else None,
        "operators": shares(took),
    }


def variant_of(arguments: argparse.Namespace, seed: int) -> VariantConfig:
    """The preset with the changes from the command line."""
    given = {name: getattr(arguments, name) for name in OVERRIDES}
    changes = {name: value for name, value in given.items() if value is not None}
    return preset(arguments.variant).with_changes(seed=seed, **changes)


def train(arguments: argparse.Namespace) -> None:
    """Train one seed in this process, or each of several seeds in its own process."""
    if len(arguments.seeds) > 1:
        _side_by_side(arguments.seeds)
        return
    (seed,) = arguments.seeds
    packed, variant = Packed.load(arguments.folder), variant_of(arguments, seed)
    history = race(variant, packed)
    result = {
        "command": f"python -m benchmarks.alone {' '.join(sys.argv[1:])}",
        "date": today(),
        "machine": machine(),
        "data": {
            "dataset": packed.about["dataset"],
            "trained_on": trained_questions(packed.train, variant.training),
            "questions": len(packed.split),
        },
        "config": variant.to_dict(),
        **summary(history),
        "history": history,
        **({"profile": profiled(variant, packed)} if arguments.profile else {}),
    }
    write(arguments.out, f"{variant.name}-seed{seed}", result)


def _side_by_side(seeds: list[int]) -> None:
    given = sys.argv[1:]
    first = given.index("--seeds") + 1
    rest = given[:first], given[first + len(seeds) :]
    command = [sys.executable, "-m", "benchmarks.alone"]
    started = [subprocess.Popen([*command, *rest[0], str(seed), *rest[1]]) for seed in seeds]
    ended = [process.wait() for process in started]
    if any(ended):
        sys.exit(1)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("folder", type=Path)
    packing.add_argument("--dataset", default="squad-v1.1-recovered")
    # No abbreviations: `_side_by_side` looks for "--seeds" to start a process for each seed.
    training = commands.add_parser("train", allow_abbrev=False)
    training.add_argument("folder", type=Path)
    training.add_argument("out", type=Path)
    training.add_argument("--variant", default="char")
    training.add_argument("--seeds", type=int, nargs="+", default=[0])
    training.add_argument("--profile", action="store_true")
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
