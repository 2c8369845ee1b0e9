"""Compares finished trainings on SQuAD 2.0 with the scores that CS224n's report published.

Usage: python -m benchmarks.published_table OUT_FOLDER TRAINED… [--expected-no-answer 0.5]
       [--note …]

TRAINED are folders of the stage `train`, such as ROOT/stages/train/*, of this release or of the
last one. Their dev split should be CS224n's dev half. The program evaluates the saved model on
validation (minutes per training), chooses the no-answer threshold there, weighted to the expected
share of unanswerable questions, and applies it to the dev predictions of the training.

OUT_FOLDER gets published.md, published.json, and for each training a Parquet file with its answers
(see `benchmarks.common.answers`).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.answers import write_answers
from benchmarks.common.machine import machine, today
from benchmarks.common.tables import markdown
from infra.artifacts.manifest import Manifest, read_manifest
from models.arrays import BoolArray, FloatArray
from models.predict import predict
from models.span_decoding import Predictions
from tasks.evaluation.bootstrap import CONFIDENCE, SAMPLES, Gain
from tasks.evaluation.evaluate import (
    Columns,
    EvaluationSplit,
    evaluate,
    load_split,
    read_predictions,
)
from tasks.evaluation.metrics import best_threshold, no_answer_auc, threshold_of_best_score
from tasks.inference.predictor import Predictor
from tasks.reports.comparison import format_gain
from tasks.text.encoded import load_encoded, load_types

# EM, F1, NLL and AvNA of CS224n's report, after 30 epochs on all of SQuAD 2.0, over the 5,951
# questions about contexts of at most 400 tokens.
PUBLISHED = {
    "baseline": (56.65, 60.10, 3.21, 64.46),
    "char": (58.14, 61.26, 2.97, 66.78),
    "char-selfattn": (59.81, 62.97, 2.81, 68.73),
    "char-selfattn-v1": (55.25, 57.39, 3.48, 63.28),
}
# A saved model must reproduce the F1 on validation that its training logged, up to rounding.
LARGEST_F1_DIFFERENCE = 0.1


@dataclass(frozen=True)
class Trained:
    """A finished training: the folder of its stage `train`."""

    folder: Path

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the stage."""
        return read_manifest(self.folder)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about the training."""
        facts: dict[str, Any] = self.manifest["facts"]
        return facts

    @property
    def config(self) -> dict[str, Any]:
        """The training's configuration."""
        config: dict[str, Any] = self.manifest["inputs"]["variant"]["training"]
        return config

    @property
    def row(self) -> tuple[str, int]:
        """Variant and number of epochs: the trainings of a row differ only in their seeds."""
        return self.facts["variant"], self.facts["epoch"]

    @property
    def name(self) -> str:
        """Variant, epochs and seed, for file names and messages."""
        variant, epochs = self.row
        return f"{variant}-{epochs}-epochs-seed-{self.config['seed']}"

    def input(self, *keys: str) -> Path:
        """The folder of one of its inputs, for example `input("dev", "ingested")`."""
        digest = self.manifest["inputs"]["data"]
        for key in keys:
            digest = digest and digest[key]
        if digest is None:
            sys.exit(f"{self.folder}: trained without {' '.join(keys)}, so it has no threshold.")
        origin = next(item for item in self.manifest["made_from"] if item["digest"] == digest)
        return self.folder.parents[1] / str(origin["stage"]) / str(origin["key"])

    def validation_predictions(self) -> Predictions:
        """The saved model's predictions for the validation split."""
        predictor = Predictor.load(self.folder / "model")
        training = predictor.variant.training
        predictions, _ = predict(
            predictor.model.eval(),
            load_encoded(self.input("validation", "encoded")),
            load_types(self.input("vocabulary")),
            training.max_answer_tokens,
            training.window,
        )
        return predictions


@dataclass(frozen=True)
class Scores:
    """EM, F1 and AvNA (0 to 1) of every dev question, (n,) each, at a threshold."""

    em: FloatArray
    f1: FloatArray
    avna: FloatArray


@dataclass(frozen=True)
class Evaluated:
    """A training's dev predictions and the threshold that validation chose."""

    trained: Trained
    answers: Columns
    answerable: BoolArray
    within: BoolArray  # (n,) questions about contexts within the token limit of training
    threshold: float

    @property
    def margin(self) -> FloatArray:
        """(n,) log-probability of no answer minus that of the best span, nats."""
        return np.asarray(self.answers["no_answer_score"] - self.answers["best_score"])

    def scores(self, threshold: float) -> Scores:
        """The scores of the dev questions at a threshold."""
        none = self.margin >= threshold
        answers = self.answers
        has_answer = ~none & (answers["best_prediction"] != "")
        return Scores(
            em=np.where(none, answers["no_answer_em"], answers["best_em"]).astype(float),
            f1=np.where(none, answers["no_answer_em"], answers["best_f1"]).astype(float),
            avna=(has_answer == self.answerable).astype(float),
        )

    def oracle_f1(self, rows: BoolArray) -> float:
        """F1 (percent) of these rows at the threshold that is best for them."""
        scores = (self.answers[name][rows].astype(float) for name in ("best_f1", "no_answer_em"))
        threshold = threshold_of_best_score(self.margin[rows], *scores)
        return 100 * float(self.scores(threshold).f1[rows].mean())


def evaluate_training(trained: Trained, expected_no_answer: float) -> Evaluated:
    """Choose the threshold on validation, and read the dev predictions."""
    validation = load_split(trained.input("validation", "ingested"))
    predictions = trained.validation_predictions()
    _require_logged_f1(trained, validation, predictions)
    dev = load_split(trained.input("dev", "ingested"))
    lengths = dev.context_lengths[dev.context_of]
    return Evaluated(
        trained,
        read_predictions(trained.folder / "predictions.parquet", dev, trained.name),
        dev.answerable,
        within=lengths <= trained.config["max_context_tokens"],
        threshold=best_threshold(validation, predictions, expected_no_answer),
    )


def _require_logged_f1(
    trained: Trained, validation: EvaluationSplit, predictions: Predictions
) -> None:
    history = json.loads((trained.folder / "history.json").read_text(encoding="utf-8"))
    logged = history[trained.facts["epoch"] - 1]["validation/f1"]
    actual = evaluate(validation, predictions).scores.f1
    if abs(actual - logged) > LARGEST_F1_DIFFERENCE:
        sys.exit(
            f"{trained.folder}: the saved model has F1 {actual:.2f} on validation, but its "
            f"training logged {logged:.2f}. Use the release that trained it."
        )


def bootstrap(after: FloatArray, before: FloatArray | None = None, samples: int = SAMPLES) -> Gain:
    """The mean of `after`, or its gain over `before`, with the 95 % interval of
    `resampled_means`."""
    mean = float(after.mean()) - (0.0 if before is None else float(before.mean()))
    return gain_of(mean, resampled_means(after, before, samples))


def resampled_means(
    after: FloatArray, before: FloatArray | None = None, samples: int = SAMPLES
) -> FloatArray:
    """Means of `after`, or its mean gains over `before`, in bootstrap samples: (samples,).

    Both are (seeds, n), in percent, about the same n questions. Each sample draws questions, and
    for each side seeds, with replacement; one seed says nothing about the variation between seeds.
    """
    random = np.random.default_rng(0)
    sides = [after] if before is None else [after, -before]
    n = after.shape[1]
    means = []
    for _ in range(samples):
        questions = random.integers(n, size=n)
        drawn = (side[random.integers(len(side), size=len(side))].mean(axis=0) for side in sides)
        means.append(sum(float(f1[questions].mean()) for f1 in drawn))
    return np.array(means)


def gain_of(mean: float, means: FloatArray) -> Gain:
    """The mean with its 95 % interval from resampled means (samples,)."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Gain(mean, float(low), float(high))


def question_f1(trainings: Sequence[Evaluated], rows: BoolArray) -> FloatArray:
    """F1 (percent) at the chosen thresholds: (seeds, selected questions)."""
    return np.array([100 * e.scores(e.threshold).f1[rows] for e in trainings])


def table_row(trainings: Sequence[Evaluated], within: bool) -> dict[str, str]:
    """The row of trainings that differ in their seeds: means, and ± the spread of F1."""
    variant, epochs = trainings[0].trained.row
    rows = trainings[0].within if within else np.ones_like(trainings[0].within)
    suffix = "_within" if within else ""

    def mean(name: str) -> float:
        values = [getattr(e.scores(e.threshold), name)[rows].mean() for e in trainings]
        return 100 * float(np.mean(values))

    f1 = question_f1(trainings, rows)
    interval = bootstrap(f1)
    nll = [e.trained.facts["scores"][f"dev/nll{suffix}"] for e in trainings]
    auc = [
        area
        for e in trainings
        if (area := no_answer_auc(e.margin[rows], e.answerable[rows])) is not None
    ]
    published = PUBLISHED.get(variant) if within else None
    return {
        "variant": variant,
        "epochs": str(epochs),
        "seeds": ", ".join(str(e.trained.config["seed"]) for e in trainings),
        "questions": f"{int(rows.sum()):,}",
        "EM": f"{mean('em'):.2f}",
        "F1": f"{interval.mean:.2f}",
        "F1, 95 %": f"{interval.low:.2f} to {interval.high:.2f}",
        "F1 of each seed": ", ".join(f"{seed.mean():.2f}" for seed in f1),
        "NLL": f"{np.mean(nll):.2f}",
        "AvNA": f"{mean('avna'):.2f}",
        "AUC": f"{np.mean(auc):.3f}" if auc else "–",
        "threshold": ", ".join(f"{e.threshold:.2f}" for e in trainings),
        "oracle F1": f"{np.mean([e.oracle_f1(rows) for e in trainings]):.2f}",
        "published EM / F1 / NLL / AvNA": (
            " / ".join(f"{value:.2f}" for value in published) if published else "–"
        ),
    }


def gain_row(before: Sequence[Evaluated], after: Sequence[Evaluated]) -> dict[str, str]:
    """The F1 gain of a row's trainings over another row's, over all dev questions."""
    everything = np.ones_like(after[0].within)
    gain = bootstrap(question_f1(after, everything), question_f1(before, everything))
    (variant, epochs), (reference, reference_epochs) = (
        side[0].trained.row for side in (after, before)
    )
    return {
        "variant": f"{variant}, {epochs} epochs",
        "over": f"{reference}, {reference_epochs} epochs",
        "F1 gain, 95 % over questions and seeds": format_gain(gain),
    }


def by_row(trainings: Sequence[Evaluated]) -> list[list[Evaluated]]:
    """The trainings of each row, in the published order; other variants come last."""
    rows: dict[tuple[str, int], list[Evaluated]] = {}
    for evaluated in sorted(trainings, key=lambda e: int(e.trained.config["seed"])):
        rows.setdefault(evaluated.trained.row, []).append(evaluated)
    order = {variant: number for number, variant in enumerate(PUBLISHED)}
    return [rows[row] for row in sorted(rows, key=lambda row: (order.get(row[0], 99), row))]


def main() -> None:
    """Evaluate the trainings of the command line and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("trained", type=Path, nargs="+")
    parser.add_argument("--expected-no-answer", type=float, default=0.5)
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    trainings = [Trained(folder.resolve()) for folder in arguments.trained]
    digests = {json.dumps(t.manifest["inputs"]["data"]["dev"]["ingested"]) for t in trainings}
    if len(digests) > 1:
        sys.exit("The trainings have different dev splits. Give those of one dev split only.")
    evaluated = []
    for trained in trainings:
        evaluated.append(evaluate_training(trained, arguments.expected_no_answer))
        write_answers(arguments.out / f"{trained.name}.parquet", trained.folder)
        print(f"{trained.name}: threshold {evaluated[-1].threshold:.3f}", flush=True)
    rows = by_row(evaluated)
    table = [table_row(row, within) for within in (False, True) for row in rows]
    gains = [gain_row(*pair) for pair in pairwise(rows)]
    result = {
        "command": "python -m " + " ".join(["benchmarks.published_table", *sys.argv[1:]]),
        "note": arguments.note,
        "expected_no_answer": arguments.expected_no_answer,
        "date": today(),
        "machine": machine(),
        "trainings": [
            {"config": t.config, "facts": t.facts, "git": t.manifest["git"]} for t in trainings
        ],
        "table": table,
        "gains": gains,
    }
    (arguments.out / "published.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    text = (
        f"EM, F1 and AvNA are at the no-answer threshold that validation chose, weighted to "
        f"{100 * arguments.expected_no_answer:g} % of unanswerable questions. Oracle: F1 at dev's "
        f"own best threshold.\n\n{markdown(table)}"
    )
    if gains:
        text += f"\n{markdown(gains)}"
    (arguments.out / "published.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
