"""How far a trained model's probabilities agree with how often it is right, before and after
temperature scaling, and whether its uncertain answers are wrong more often.

Usage: python -m benchmarks.calibration MODEL_FOLDER SPLIT_FOLDER [--validation SPLIT_FOLDER]
           [--uncertain 100 500] [--temperatures 0.8 1.25] [--out FILE.json] [--diagram FILE.png]

MODEL_FOLDER is the `model` folder of a `train` stage, SPLIT_FOLDER an ingested split. The answers
are those of raw text. An answer is right if it matches one of the annotators' answers exactly; for
`first_annotator`, only the first one counts, as in a split with one answer to each question.
`uncertain` compares the share of wrong answers among those with the lowest probabilities with that
of all, which is what a random choice finds. The diagram shows the share of right answers by
probability. --temperatures adds other temperatures to compare with that of the model.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common.figures import save
from benchmarks.common.machine import machine, print_result, today
from models.arrays import FloatArray
from models.squad_metrics import score_questions
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.evaluation.metrics import expected_calibration_error, reliability
from tasks.inference.predictor import AnswerRow, Predictor

# (n,) by when: before and after temperature scaling, or at another temperature.
Probabilities = dict[str, FloatArray]


def answers_of(
    predictor: Predictor, split: EvaluationSplit, temperatures: list[float]
) -> tuple[list[AnswerRow], Probabilities]:
    """The answers to all questions of a split, and their probabilities, also at other temperatures.

    Thresholds follow the temperature, so the answers are the same at all of them.
    """
    pairs = [(question, split.context(row)) for row, question in enumerate(split.questions)]
    raw = predictor.threshold * predictor.temperature
    named = {"before": 1.0, "after": predictor.temperature, **{str(t): t for t in temperatures}}
    answered = {
        name: replace(predictor, temperature=t, threshold=raw / t).answer(pairs)
        for name, t in named.items()
    }
    return answered["after"], {
        name: np.array([row["probability"] for row in rows]) for name, rows in answered.items()
    }


def exact_matches(split: EvaluationSplit, texts: list[str], annotators: int | None) -> FloatArray:
    """(n,) whether each answer matches one of the first annotators' answers exactly, 0 or 1."""
    golds = [own[:annotators] for own in split.gold_texts]
    scores = score_questions(texts, golds, split.answerable.tolist(), v2=split.v2)
    return np.array([float(score.em) for score in scores])


def measure(
    probabilities: Probabilities, right: FloatArray, uncertain: list[int]
) -> dict[str, Any]:
    """Exact matches (percent), calibration errors (points) and the wrong answers (percent) among
    those with the lowest probabilities."""
    order = np.argsort(probabilities["after"], kind="stable")
    return {
        "questions": len(right),
        "em": 100 * float(right.mean()),
        "mean_probability": {n: 100 * float(own.mean()) for n, own in probabilities.items()},
        "ece": {
            name: expected_calibration_error(reliability(own, right))
            for name, own in probabilities.items()
        },
        "wrong": {
            "all": 100 * float(1 - right.mean()),
            **{str(count): 100 * float(1 - right[order[:count]].mean()) for count in uncertain},
        },
    }


def draw(file: Path, probabilities: Probabilities, right: FloatArray) -> None:
    """The reliability diagram before and after temperature scaling."""
    figure, axes = plt.subplots(figsize=(4.5, 4))
    axes.plot([0, 100], [0, 100], color="gray", linewidth=1, linestyle="--")
    for name, own in probabilities.items():
        bins = reliability(own, right)
        error = expected_calibration_error(bins)
        points = [(100 * own.probability, 100 * own.accuracy) for own in bins]
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{name}: ECE {error:.1f} points")
    axes.set(xlabel="probability, %", ylabel="exact match, %", xlim=(0, 100), ylim=(0, 100))
    axes.legend()
    figure.tight_layout()
    save(figure, file)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="`model` folder of a `train` stage")
    parser.add_argument("split", type=Path, help="folder of an ingested split, such as dev")
    parser.add_argument("--validation", type=Path, help="folder of the split that was fitted")
    parser.add_argument("--uncertain", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[])
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    parser.add_argument("--diagram", type=Path, help="PNG file for the diagram of the split")
    arguments = parser.parse_args()
    predictor = Predictor.load(arguments.model)
    folders = {"split": arguments.split, "validation": arguments.validation}
    measured: dict[str, Any] = {}
    for name, folder in folders.items():
        if folder is not None:
            split = load_split(folder)
            rows, probabilities = answers_of(predictor, split, arguments.temperatures)
            texts = [row["answer"] for row in rows]
            right, first = (exact_matches(split, texts, limit) for limit in (None, 1))
            measured[name] = measure(probabilities, right, arguments.uncertain)
            measured[name]["first_annotator"] = measure(probabilities, first, arguments.uncertain)
            if name == "split" and arguments.diagram:
                draw(arguments.diagram, probabilities, right)
    config = json.loads((arguments.model / "config.json").read_text(encoding="utf-8"))
    result = {
        "command": "python -m benchmarks.calibration MODEL_FOLDER SPLIT_FOLDER",
        "date": today(),
        "machine": machine(),
        "model": config["variant"]["name"],
        "temperature": predictor.temperature,
        **measured,
    }
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
