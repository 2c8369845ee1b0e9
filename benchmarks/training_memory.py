"""Measures the memory of long trainings under different settings of jemalloc.

Usage: python -m benchmarks.training_memory [--dataset squad-v1.1-recovered] [--minutes 60]
    [--settings MALLOC_CONF ...] [--out FILE.json]

Each of the `--settings` trains `docqa` in bfloat16 in a process of its own with one thread; all
train side by side, on the same batches. Every half minute, each notes its steps, resident memory
and the part of it that the kernel may take back (MiB), and its CPU seconds, of which seconds in the
kernel. By default they are those of training processes, and those that keep all freed memory.
"""

from benchmarks.step import encoded_folders, load_folders

# isort: split
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.common.machine import machine, print_result, today
from infra.cluster.ray_cluster import KEEP_FREED_MEMORY, allocator_variables
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.trainer import Reading, Trainer

NOTE_SECONDS = 30
COLUMNS = ("step", "resident_mib", "reclaimable_mib", "cpu_seconds", "kernel_seconds", "seconds")
KEEP_ALL = "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0"


def train(folders: list[Path], minutes: float) -> None:
    """Train, and print a line of numbers every half minute."""
    data = load_folders(*folders)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    variant = preset("docqa").with_changes(precision="bfloat16")
    trainer = Trainer(BiDAF(variant.model, data.vectors, data.characters), variant.training)
    before, noted, running = os.times(), 0.0, True

    def note(reading: Reading) -> bool:
        nonlocal noted, running
        running = reading.seconds < 60 * minutes
        if reading.seconds - noted >= NOTE_SECONDS or not running:
            noted = reading.seconds
            user, kernel = (
                now - then for now, then in zip(os.times()[:2], before[:2], strict=True)
            )
            seconds = [round(value, 1) for value in (user + kernel, kernel, noted)]
            print(json.dumps([reading.step, *memory(), *seconds]), flush=True)
        return running

    while running:
        trainer.train_epoch(data.train, data.types, note)


def memory() -> tuple[int, int]:
    """MiB of this process's resident memory, and of that part which the kernel may take back."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kib["Rss"] >> 10, kib["LazyFree"] >> 10


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="squad-v1.1-recovered")
    parser.add_argument("--minutes", type=float, default=60)
    default = [KEEP_ALL, KEEP_FREED_MEMORY["MALLOC_CONF"]]
    parser.add_argument("--settings", nargs="+", default=default, metavar="MALLOC_CONF")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    parser.add_argument("--train", type=Path, nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        return train(arguments.train, arguments.minutes)
    folders = map(str, encoded_folders(arguments.dataset))
    command = [sys.executable, "-m", "benchmarks.training_memory", "--train", *folders]
    command += ["--minutes", str(arguments.minutes)]
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for number, setting in enumerate(arguments.settings):
            notes = Path(folder) / str(number)
            environment = os.environ | allocator_variables() | {"MALLOC_CONF": setting}
            with notes.open("w") as out:
                process = subprocess.Popen(command, env=environment, stdout=out)
            running.append((setting, process, notes))
        measured = {}
        for setting, process, notes in running:
            if process.wait():
                sys.exit(f"The training with {setting} failed.")
            lines = notes.read_text(encoding="utf-8").splitlines()
            measured[setting] = [json.loads(line) for line in lines]
    result = {
        "command": f"python -m benchmarks.training_memory --dataset {arguments.dataset} "
        f"--minutes {arguments.minutes:g} --settings {' '.join(arguments.settings)}",
        "date": today(),
        "machine": machine(),
        "columns": COLUMNS,
        "measured": measured,
    }
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
