"""Trains on machines with only torch, numpy, pyarrow and safetensors: no Ray, no Prefect.

Usage: python -m benchmarks.alone pack FOLDER [--data squad-v1.1-recovered] [--vectors SET]
       python -m benchmarks.alone train FOLDER OUT [--variant char] [--seeds 0 1 2] [--epochs 12]
           [--batch-size 256] [--optimizer adam] [--learning-rate 0.004] …
       python -m benchmarks.alone profile FOLDER OUT.json [--variants baseline char]
           [--batch-sizes 64 256] [--precisions float32 bfloat16] [--steps 30]
       python -m benchmarks.alone losses FOLDER OUT.json [--variants baseline char]
           [--precisions float32 bfloat16] [--steps 50]

`pack` gathers what a training reads (encoded splits, word vectors) in a folder of some tens of
megabytes, which can be copied to such a machine. --data and --vectors are names, or JSON objects
with the fields of `bidaflow train`, such as {"dataset": "support", "train_files": ["a.json"]}.

`train` trains the preset there, on the GPU if torch finds one; all training settings are options.
Each seed runs in its own process, all of them in parallel. After each epoch it writes a TSV file in
DAWNBench's format and a JSON file, as `benchmarks.race` does. A checkpoint stays in FOLDER: run the
same command again to resume.

`profile` times some steps of each variant with each batch size and precision, and lists the
operators that took most of the time; on a GPU also the kernels, the peak memory and the share of
the time in which the GPU computed. `losses` writes the losses of each variant's first steps with
Adam 0.001 and without dropout, to compare them between a GPU and a CPU.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.alone.losses import first_losses
from benchmarks.alone.packed import Packed
from benchmarks.alone.profiling import profile_steps
from benchmarks.alone.training import train_variant
from benchmarks.common.machine import machine, print_result, today
from models.configs.presets import preset
from models.configs.variant import TrainingConfig, VariantConfig

# Modules that need more than torch, numpy, pyarrow and safetensors are imported where they are
# used.

COMMAND = f"python -m benchmarks.alone {' '.join(sys.argv[1:])}"


def configure(arguments: argparse.Namespace, seed: int) -> VariantConfig:
    """The preset with the training settings of the command line."""
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    changes = {name: value for name, value in settings.items() if value is not None}
    return changed(arguments.variant, seed=seed, **changes)


def changed(name: str, **changes: Any) -> VariantConfig:
    """The preset with changes; invalid ones end the program with a message."""
    try:
        return preset(name).with_changes(**changes)
    except (TypeError, ValueError) as error:
        sys.exit(str(error))


# The seed has its own option.
SETTINGS = [field.name for field in fields(TrainingConfig) if field.name != "seed"]


def train(arguments: argparse.Namespace) -> None:
    """Train one seed in this process, or each of several seeds in its own process."""
    if len(arguments.seeds) > 1:
        _train_in_parallel(arguments.seeds)
        return
    (seed,) = arguments.seeds
    packed, variant = Packed.load(arguments.folder), configure(arguments, seed)
    if "validation" not in packed.evaluated:
        for name in ("patience", "stop_at_f1"):
            if getattr(variant.training, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                sys.exit(f"{arguments.folder} has no validation split. Omit {flag}.")
    train_variant(variant, packed, arguments.out, COMMAND)


def _train_in_parallel(seeds: list[int]) -> None:
    flags = sys.argv[1:]
    first = flags.index("--seeds") + 1
    before, after = flags[:first], flags[first + len(seeds) :]
    command = [sys.executable, "-m", "benchmarks.alone"]
    processes = [subprocess.Popen([*command, *before, str(seed), *after]) for seed in seeds]
    exit_codes = [process.wait() for process in processes]
    if any(exit_codes):
        sys.exit(1)


def profile(arguments: argparse.Namespace) -> None:
    """Profile steps of each variant with each batch size and precision."""
    variants = [
        changed(name, precision=precision, batch_size=size)
        for name, precision, size in product(
            arguments.variants, arguments.precisions, arguments.batch_sizes
        )
    ]
    packed, measured = Packed.load(arguments.folder), []
    for variant in variants:
        measured.append(profile_steps(variant, packed, arguments.steps))
        print(json.dumps(measured[-1]), flush=True)
    _print(arguments.out, measured)


def losses(arguments: argparse.Namespace) -> None:
    """Write the losses of the first steps of each variant in each precision."""
    variants = [
        changed(name, optimizer="adam", learning_rate=0.001, precision=precision)
        for name, precision in product(arguments.variants, arguments.precisions)
    ]
    packed = Packed.load(arguments.folder)
    measured = [
        {
            "variant": variant.name,
            "precision": variant.training.precision,
            "losses": first_losses(variant, packed, arguments.steps),
        }
        for variant in variants
    ]
    _print(arguments.out, measured)


def _print(out: Path, measured: list[dict[str, Any]]) -> None:
    result = {"command": COMMAND, "date": today(), "machine": machine(), "measured": measured}
    print_result(result, out)


def pack(arguments: argparse.Namespace) -> None:
    """Ingest and encode the data, and gather in the folder the files that `train` reads."""
    from benchmarks.alone.packing import pack_data

    pack_data(arguments.folder, arguments.data, arguments.vectors)


def value(text: str) -> Any:
    """A setting's value: JSON, or a word such as adam."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="gather the data that `train` reads")
    packing.add_argument("folder", type=Path, help="folder for the data")
    packing.add_argument("--data", type=value, default="squad-v1.1-recovered")
    packing.add_argument("--vectors", type=value, default="glove-6b-50d")
    packing.set_defaults(run=pack)
    # No abbreviations: `_train_in_parallel` looks for "--seeds" to start a process for each seed.
    training = commands.add_parser("train", allow_abbrev=False, help="train on the gathered data")
    training.add_argument("folder", type=Path, help="folder that `pack` filled")
    training.add_argument("out", type=Path, help="folder for the results")
    training.add_argument("--variant", default="char", help="preset to train (default: char)")
    training.add_argument("--seeds", type=int, nargs="+", default=[0], help="one process per seed")
    for name in SETTINGS:
        training.add_argument(f"--{name.replace('_', '-')}", type=value)
    training.set_defaults(run=train)
    for name, run, steps, text in (
        ("profile", profile, 30, "time and profile training steps"),
        ("losses", losses, 50, "write the losses of the first steps"),
    ):
        measuring = commands.add_parser(name, help=text)
        measuring.add_argument("folder", type=Path, help="folder that `pack` filled")
        measuring.add_argument("out", type=Path, help="JSON file for the results")
        measuring.add_argument("--variants", nargs="+", default=["char"], help="presets")
        measuring.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
        measuring.add_argument("--steps", type=int, default=steps)
        if name == "profile":
            measuring.add_argument("--batch-sizes", type=int, nargs="+", default=[64])
        measuring.set_defaults(run=run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
