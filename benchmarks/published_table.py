"""Compares finished trainings on SQuAD 2.0 with the scores that CS224n's report published.

Usage: python -m benchmarks.published_table OUT_FOLDER TRAINED… [--expected-no-answer 0.5]
       [--note …]

TRAINED are folders of the stage `train`, such as ROOT/stages/train/*, of this release or of the
last one. Their dev split should be CS224n's dev half. The program evaluates the saved model on
validation (minutes per training), chooses the no-answer threshold there, weighted to the expected
share of unanswerable questions, and applies it to the dev predictions of the training.

The trainings of a row have the same variant, settings and data, and different seeds. Gains compare
all pairs of rows with the same number of epochs.

OUT_FOLDER gets published.md, published.json, and for each training a Parquet file with its answers
(see `benchmarks.common.answers`).
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.common.answers import write_answers
from benchmarks.common.machine import machine, today
from benchmarks.common.significance import bootstrap
from benchmarks.common.tables import markdown
from benchmarks.common.trained import Row, Trained, rows_of
from benchmarks.common.validation import (
    add_expected_no_answer,
    choose_threshold,
    without_negatives,
)
from infra.atomic_files import write_atomically
from models.arrays import BoolArray, FloatArray
from tasks.data.negatives import negative_kind
from tasks.evaluation.evaluate import Columns, load_split, read_predictions
from tasks.evaluation.metrics import no_answer_auc, threshold_of_best_score
from tasks.reports.comparison import format_gain

# EM, F1, NLL and AvNA of CS224n's report, after 30 epochs on all of SQuAD 2.0, over the 5,951
# questions about contexts of at most 400 tokens.
PUBLISHED = {
    "baseline": (56.65, 60.10, 3.21, 64.46),
    "char": (58.14, 61.26, 2.97, 66.78),
    "char-selfattn": (59.81, 62.97, 2.81, 68.73),
    "char-selfattn-v1": (55.25, 57.39, 3.48, 63.28),
}


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
    dev = load_split(trained.input("dev", "ingested"))
    lengths = dev.context_lengths[dev.context_of]
    return Evaluated(
        trained,
        read_predictions(trained.folder / "predictions.parquet", dev, str(trained.folder)),
        dev.answerable,
        within=lengths <= trained.variant.training.max_context_tokens,
        threshold=choose_threshold(without_negatives(trained.validation()), expected_no_answer),
    )


def require_both_kinds(trained: Trained) -> None:
    """End the program if no threshold can be chosen for a training."""
    split = load_split(trained.input("validation", "ingested"))
    answerable = split.answerable[[negative_kind(id) is None for id in split.ids]]
    if answerable.all() or not answerable.any() or not trained.allows_no_answer:
        sys.exit(
            f"{trained.folder}: no threshold can be chosen, because its training or validation "
            "split lacks answerable or unanswerable questions. Give trainings on SQuAD 2.0."
        )


def question_f1(trainings: Sequence[Evaluated], rows: BoolArray) -> FloatArray:
    """F1 (percent) at the chosen thresholds: (seeds, selected questions)."""
    return np.array([100 * e.scores(e.threshold).f1[rows] for e in trainings])


def mean_scores(trainings: Sequence[Evaluated], rows: BoolArray, argmax: bool) -> list[float]:
    """Mean EM, F1 and AvNA (percent) of these questions over the trainings, at the argmax or at the
    chosen thresholds."""
    scores = [e.scores(0.0 if argmax else e.threshold) for e in trainings]
    return [
        100 * float(np.mean([getattr(s, name)[rows].mean() for s in scores]))
        for name in ("em", "f1", "avna")
    ]


def table_row(row: Row, trainings: Sequence[Evaluated], within: bool) -> dict[str, str]:
    """The table row of the trainings of a row: means, and the interval of F1."""
    rows = denominator(trainings[0], within)
    suffix = "_within" if within else ""
    em, _, avna = mean_scores(trainings, rows, argmax=False)
    f1 = question_f1(trainings, rows)
    interval = bootstrap(f1)
    nll = [e.trained.facts["scores"][f"dev/nll{suffix}"] for e in trainings]
    auc = [
        area
        for e in trainings
        if (area := no_answer_auc(e.margin[rows], e.answerable[rows])) is not None
    ]
    published = PUBLISHED.get(row.variant) if within else None
    return {
        "variant": row.variant,
        "settings": row.settings or "–",
        "epochs": str(row.epochs),
        "epoch kept": ", ".join(str(e.trained.facts["epoch"]) for e in trainings),
        "seeds": ", ".join(str(e.trained.seed) for e in trainings),
        "questions": f"{int(rows.sum()):,}",
        "EM": f"{em:.2f}",
        "F1": f"{interval.mean:.2f}",
        "F1, 95 %": f"{interval.low:.2f} to {interval.high:.2f}",
        "F1 of each seed": ", ".join(f"{seed.mean():.2f}" for seed in f1),
        "NLL": f"{np.mean(nll):.2f}",
        "AvNA": f"{avna:.2f}",
        "AUC": f"{np.mean(auc):.3f}" if auc else "–",
        "threshold": ", ".join(f"{e.threshold:.2f}" for e in trainings),
        "argmax EM / F1 / AvNA": join_scores(mean_scores(trainings, rows, argmax=True)),
        "oracle F1": f"{np.mean([e.oracle_f1(rows) for e in trainings]):.2f}",
        "published EM / F1 / NLL / AvNA": join_scores(published) if published else "–",
    }


def join_scores(scores: Iterable[float]) -> str:
    """Scores with two decimal places, as one cell of a table."""
    return " / ".join(f"{score:.2f}" for score in scores)


def denominator(evaluated: Evaluated, within: bool) -> BoolArray:
    """The dev questions that count, (n,): all, or those about contexts within the token limit."""
    return evaluated.within if within else np.ones_like(evaluated.within)


Evaluations = Mapping[str, Sequence[Evaluated]]
"""The evaluated trainings of each row, by its title."""


def gain_rows(rows: Sequence[Row], evaluated: Evaluations) -> list[dict[str, str]]:
    """The F1 gains of the later over the earlier row of each pair with equal epochs, over all dev
    questions and over those within the token limit."""
    return [
        gain_row(before, after, evaluated, within)
        for within in (False, True)
        for before, after in combinations(rows, 2)
        if before.epochs == after.epochs
    ]


def gain_row(before: Row, after: Row, evaluated: Evaluations, within: bool) -> dict[str, str]:
    """The F1 gain of a row over another one."""
    questions = denominator(evaluated[after.title][0], within)
    gain = bootstrap(
        question_f1(evaluated[after.title], questions),
        question_f1(evaluated[before.title], questions),
    )
    return {
        "variant": after.title,
        "over": before.title,
        "questions": f"{int(questions.sum()):,}",
        "F1 gain, 95 % over questions and seeds": format_gain(gain),
    }


def published_order(row: Row) -> int:
    """The position of a row's variant in the published table; other variants come last."""
    variants = list(PUBLISHED)
    return variants.index(row.variant) if row.variant in variants else len(variants)


def evaluate_row(row: Row, arguments: argparse.Namespace) -> list[Evaluated]:
    """Evaluate the trainings of a row, and write their answers."""
    evaluated = []
    for trained in row.trainings:
        evaluated.append(evaluate_training(trained, arguments.expected_no_answer))
        threshold = evaluated[-1].threshold
        write_answers(arguments.out / trained.file_name, trained.folder, threshold)
        print(f"{row.title}, seed {trained.seed}: threshold {threshold:.3f}", flush=True)
    return evaluated


def main() -> None:
    """Evaluate the trainings of the command line and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("trained", type=Path, nargs="+")
    add_expected_no_answer(parser)
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    trainings = [Trained(folder.resolve()) for folder in arguments.trained]
    digests = {json.dumps(t.manifest["inputs"]["data"]["dev"]["ingested"]) for t in trainings}
    if len(digests) > 1:
        sys.exit("The trainings have different dev splits. Give those of one dev split only.")
    for trained in trainings:
        require_both_kinds(trained)
    rows = sorted(rows_of(trainings), key=published_order)
    evaluated = {row.title: evaluate_row(row, arguments) for row in rows}
    table = [
        table_row(row, evaluated[row.title], within) for within in (False, True) for row in rows
    ]
    gains = gain_rows(rows, evaluated)
    result = {
        "command": "python -m " + " ".join(["benchmarks.published_table", *sys.argv[1:]]),
        "note": arguments.note,
        "expected_no_answer": arguments.expected_no_answer,
        "date": today(),
        "machine": machine(),
        "trainings": [{"answers": t.file_name, **t.summary} for t in trainings],
        "table": table,
        "gains": gains,
    }
    write_atomically(arguments.out / "published.json", json.dumps(result, indent=1) + "\n")
    text = (
        f"EM, F1 and AvNA are at the no-answer threshold that validation chose, weighted to "
        f"{100 * arguments.expected_no_answer:g} % of unanswerable questions. Argmax: no answer "
        "where it is more probable than the best span. Oracle: F1 at dev's own best threshold.\n\n"
        f"{markdown(table)}"
    )
    if gains:
        text += f"\n{markdown(gains)}"
    write_atomically(arguments.out / "published.md", text)
    print(text)


if __name__ == "__main__":
    main()
