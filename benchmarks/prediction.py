"""Answers for files: how fast `bidaflow predict` is, and whether kills change what it writes.

Usage: python -m benchmarks.prediction MODEL_FOLDER SPLIT_FOLDER [--questions 100000] [--kills 5]
           [--processors 0 0,1] [--out FILE.json]

MODEL_FOLDER is the `model` folder of a `train` stage, SPLIT_FOLDER an ingested split, whose
questions are repeated with new ids. They are answered once for each of --processors, the numbers of
the processors that the command may use; then by a command that is killed at random times and
started again, on the last of these. All must write the same bytes. Then some of the questions are
answered one by one, and together.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common.machine import machine, print_result, today
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.inference.predictor import Predictor

ONE_BY_ONE = 500


def write_questions(file: Path, split: EvaluationSplit, count: int) -> None:
    """Write so many questions as JSON Lines, those of the split over and over."""
    with file.open("w", encoding="utf-8") as lines:
        for number, row in enumerate(islice(cycle(range(len(split))), count)):
            question = {"question": split.questions[row], "context": split.context(row)}
            lines.write(json.dumps({"id": str(number), **question}) + "\n")


def start(folder: Path, questions: Path, model: Path, cores: str) -> "subprocess.Popen[bytes]":
    """Start the command, with its root and its output in a folder."""
    words = ["predict", str(questions), "--model", str(model), "--output", f"{folder}/out.parquet"]
    return subprocess.Popen(
        ["taskset", "-c", cores, sys.executable, "-m", "flows", *words],
        env=os.environ | {"BIDAFLOW_ROOT": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def run(folder: Path, questions: Path, model: Path, cores: str) -> tuple[str, float]:
    """The digest of what the command writes, and its seconds."""
    began = time.perf_counter()
    if start(folder, questions, model, cores).wait():
        sys.exit("bidaflow predict failed; run it in a terminal to see why.")
    return sha256((folder / "out.parquet").read_bytes()).hexdigest(), time.perf_counter() - began


def kill(folder: Path, questions: Path, model: Path, cores: str, seconds: float) -> bool:
    """Kill the command and its processes after some seconds; whether it was still running."""
    process = start(folder, questions, model, cores)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def batching(model: Path, split: EvaluationSplit) -> dict[str, float]:
    """Questions a second that a model answers one by one, and together."""
    predictor = Predictor.load(model)
    pairs = [(split.questions[row], split.context(row)) for row in range(len(split))][:ONE_BY_ONE]
    predictor.answer(pairs[:8])
    began = time.perf_counter()
    for pair in pairs:
        predictor.answer([pair])
    middle = time.perf_counter()
    predictor.answer(pairs)
    end = time.perf_counter()
    return {"one by one": len(pairs) / (middle - began), "together": len(pairs) / (end - middle)}


def measure(
    model: Path, folder: Path, count: int, kills: int, processors: Sequence[str]
) -> dict[str, Any]:
    """Run the command on each set of processors, and once with kills."""
    split, generator = load_split(folder), random.Random(0)
    with TemporaryDirectory() as temporary:
        questions = Path(temporary) / "questions.jsonl"
        write_questions(questions, split, count)
        roots = [Path(temporary) / f"root {number}" for number in range(len(processors) + 1)]
        for root in roots:
            root.mkdir()
        whole = [run(r, questions, model, c) for r, c in zip(roots, processors, strict=False)]
        seconds = whole[-1][1]
        job = roots[-1], questions, model, processors[-1]
        # Each start repeats some seconds of loading, so that all kills hit a run under way.
        times = [generator.uniform(0.1, 0.9) * seconds / kills + 10 for _ in range(kills)]
        killed = sum(kill(*job, own) for own in times)
        digests = {digest for digest, _ in (*whole, run(*job))}
    return {
        "questions": count,
        "seconds": dict(zip(processors, (own for _, own in whole), strict=True)),
        "kills": killed,
        "same_bytes": len(digests) == 1,
        "questions_per_second_without_files": batching(model, split),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="`model` folder of a `train` stage")
    parser.add_argument("split", type=Path, help="folder of an ingested split, such as dev")
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--processors", nargs="+", default=["0", "0,1"])
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    own = parser.parse_args()
    measured = measure(own.model, own.split, own.questions, own.kills, own.processors)
    command = "python -m benchmarks.prediction MODEL_FOLDER SPLIT_FOLDER"
    print_result({"command": command, "date": today(), "machine": machine(), **measured}, own.out)


if __name__ == "__main__":
    main()
