"""What averaging gains during a training: F1 on validation at checkpoints, with and without it.

Usage: python -m benchmarks.studies.averaged_weights OUT_FOLDER TRAINED CHECKPOINT… [--note …]

Averaging (EMA) does not influence training: a checkpoint's raw weights are those that the training
would have without it. TRAINED is the folder of a finished training (stage `train`), CHECKPOINTs are
its folders ROOT/ray/KEY/checkpoint_…. A training keeps the two with the best validation F1 and the
latest one, so copy them while it runs. Each takes minutes: the model answers all questions of
validation with both kinds of weights. One of the first epoch has no scores yet, so nothing shows
whether it is of TRAINED.

F1 is that of most probable answers, by which a training chooses its epoch. Intervals resample
articles with their questions, p-values are corrected over the checkpoints (Holm), and one seed says
nothing about others. OUT_FOLDER gets averaged-weights.md, .json and .png, and the answers as
averaged-weights.parquet (see `benchmarks.trainings.answers`).
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from safetensors.torch import load_file

from benchmarks.common.figures import save
from benchmarks.common.tables import write_table
from benchmarks.trainings.answers import facts_about, span_columns, write_columns
from benchmarks.trainings.trained import Trained
from models.arrays import FloatArray
from models.optim import with_prefix
from models.span_decoding import Predictions, argmax_threshold
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split
from tasks.evaluation.significance import CorrectedGain, corrected_gains
from tasks.training.checkpoints import NUMBERS, TENSORS, averaged_weights

PROGRAM = "benchmarks.studies.averaged_weights"
RAW, AVERAGED = "raw", "averaged"
F1 = dict[int, dict[str, FloatArray]]  # of each question (n,), percent, by step and kind of weights


def step_of(checkpoint: Path, trained: Trained) -> int:
    """The step of a checkpoint. The program ends if it is not of this training."""
    try:
        numbers = json.loads((checkpoint / NUMBERS).read_text(encoding="utf-8"))
    except OSError:
        sys.exit(f"{checkpoint} is not a checkpoint. Give folders ROOT/ray/KEY/checkpoint_….")
    f1 = [entry["validation/f1"] for entry in numbers["record"]["history"]]
    if f1 != [entry["validation/f1"] for entry in trained.history[: len(f1)]]:
        sys.exit(f"{checkpoint} is not a checkpoint of {trained.folder}.")
    return int(numbers["counters"]["step"])


def answer(checkpoint: Path, trained: Trained) -> dict[str, Predictions]:
    """The predictions for validation of raw and averaged weights."""
    weights = {
        RAW: with_prefix(load_file(checkpoint / TENSORS), "weights."),
        AVERAGED: averaged_weights(checkpoint),
    }
    return {kind: trained.predictions("validation", tensors) for kind, tensors in weights.items()}


def f1_of(split: EvaluationSplit, predictions: Predictions, threshold: float) -> FloatArray:
    """F1 of each question, (n,), percent."""
    scores = evaluate(split, predictions, threshold).questions
    return np.array([100 * question.f1 for question in scores])


def gains_by_step(f1: F1, split: EvaluationSplit) -> dict[int, CorrectedGain]:
    """What averaging gains at each step."""
    pairs = {step: (kinds[AVERAGED][None], kinds[RAW][None]) for step, kinds in f1.items()}
    return corrected_gains(pairs, split.article_of)


def table(f1: F1, gains: Mapping[int, CorrectedGain], batches: int) -> list[dict[str, str]]:
    """A table row for each step; `batches` are the steps of an epoch."""
    return [
        {
            "step": f"{step:,}",
            "epoch": f"{step / batches:.2f}".removesuffix(".00"),
            "F1 without averaging": f"{kinds[RAW].mean():.2f}",
            "F1 with": f"{kinds[AVERAGED].mean():.2f}",
            "gain, 95 %": gains[step].text,
            "p (Holm)": f"{gains[step].p:.3f}",
        }
        for step, kinds in f1.items()
    ]


def draw(f1: F1, batches: int, file: Path) -> None:
    """Draw both F1 over the epochs."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    epochs = [step / batches for step in f1]
    for kind, label in ((RAW, "without averaging"), (AVERAGED, "with")):
        axes.plot(epochs, [kinds[kind].mean() for kinds in f1.values()], "o-", label=label)
    axes.set(xlabel="epochs", ylabel="F1 on validation, %")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, file)


def measure(out: Path, trained: Trained, checkpoints: Mapping[int, Path]) -> tuple[Any, F1]:
    """Answer validation at each step, and write the answers. Returns the split and F1."""
    split = load_split(trained.input("validation", "ingested"))
    argmax = argmax_threshold(trained.allows_no_answer)
    columns: dict[str, list[Any]] = defaultdict(list)
    f1: F1 = {}
    for step, checkpoint in checkpoints.items():
        answered = answer(checkpoint, trained)
        f1[step] = {
            kind: f1_of(split, predictions, argmax) for kind, predictions in answered.items()
        }
        for kind, predictions in answered.items():
            scored: dict[str, Any] = {
                "step": [step] * len(split),
                "weights": [kind] * len(split),
                "f1": f1[step][kind] / 100,
                **span_columns(split, predictions),
            }
            for name, values in scored.items():
                columns[name].extend(values)
        means = " ".join(f"{kind} {scores.mean():.2f}" for kind, scores in f1[step].items())
        print(f"step {step:,}: F1 {means}", flush=True)
    write_columns(out / "averaged-weights.parquet", columns, facts_about(trained))
    return split, f1


def run(out: Path, trained: Trained, folders: Sequence[Path], note: str) -> None:
    """Measure the checkpoints, and write the results."""
    checkpoints = dict(sorted((step_of(folder, trained), folder) for folder in folders))
    split, f1 = measure(out, trained, checkpoints)
    gains = gains_by_step(f1, split)
    batches = trained.history[0]["step"]
    draw(f1, batches, out / "averaged-weights.png")
    facts = {**trained.training.facts, "git": trained.manifest["git"]}
    write_table(out, "averaged-weights", PROGRAM, table(f1, gains, batches), note=note, **facts)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("trained", type=Path, metavar="TRAINED")
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="CHECKPOINT")
    parser.add_argument("--note", default="", help="note to record with the results")
    arguments = parser.parse_args()
    trained = Trained(arguments.trained.resolve())
    arguments.out.mkdir(parents=True, exist_ok=True)
    run(arguments.out, trained, arguments.checkpoints, arguments.note)


if __name__ == "__main__":
    main()
