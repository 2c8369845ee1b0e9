"""Scores and gains of finished trainings on the questions of validation that they share.

Questions are weighted so that unanswerable ones have the share that is expected in use. Each
training has its own no-answer threshold, the best one for these questions. If none of them is
unanswerable, every answer is a span.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.answers import facts_about, write_predictions
from benchmarks.common.significance import gain_of, holm, p_value, resampled_means, starred
from benchmarks.common.tables import write_table
from benchmarks.common.trained import Row, Trained, rows_of
from models.arrays import FloatArray
from models.span_decoding import Predictions, argmax_threshold
from models.squad_metrics import QuestionScore
from tasks.data.negatives import negative_kind
from tasks.evaluation.evaluate import EvaluationSplit, evaluate
from tasks.evaluation.metrics import best_threshold, kind_weights, no_answer_auc

Answers = tuple[EvaluationSplit, Predictions]
"""A split, and predictions for its questions."""


def add_expected_no_answer(parser: argparse.ArgumentParser) -> None:
    """Add --expected-no-answer: the share of unanswerable questions to choose thresholds for."""
    parser.add_argument(
        "--expected-no-answer",
        type=_share,
        default=0.5,
        metavar="SHARE",
        help="share of unanswerable questions that thresholds are chosen for (default: 0.5)",
    )


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def without_negatives(answers: Answers) -> Answers:
    """The answers to the questions that people wrote."""
    return select(answers, [id for id in answers[0].ids if negative_kind(id) is None])


def select(answers: Answers, ids: Sequence[str]) -> Answers:
    """The answers to the questions with these ids, in their order."""
    split, predictions = answers
    row_of = {id: row for row, id in enumerate(split.ids)}
    rows = np.array([row_of[id] for id in ids], dtype=np.int64)
    selected = replace(
        split,
        ids=list(ids),
        questions=[split.questions[row] for row in rows],
        golds=[split.golds[row] for row in rows],
        context_of=split.context_of[rows],
        span_start=split.span_start[rows],
        span_end=split.span_end[rows],
    )
    return selected, Predictions(
        predictions.span_start[rows],
        predictions.span_end[rows],
        predictions.span_score[rows],
        predictions.no_answer_score[rows],
    )


def choose_threshold(answers: Answers, expected_no_answer: float) -> float:
    """The threshold with the best F1, if the expected share of questions were unanswerable;
    infinity (a span for each question) if none of them is."""
    split, predictions = answers
    if split.answerable.all():
        return math.inf
    if not split.answerable.any():
        sys.exit("The questions of validation are all unanswerable, so no threshold can be chosen.")
    return best_threshold(split, predictions, expected_no_answer)


@dataclass(frozen=True)
class Validated:
    """A training's answers to the shared questions, at its threshold."""

    trained: Trained
    answers: Answers
    expected_no_answer: float

    @property
    def split(self) -> EvaluationSplit:
        """The shared questions."""
        return self.answers[0]

    @cached_property
    def threshold(self) -> float:
        """The no-answer threshold; infinity if every answer is a span."""
        return choose_threshold(self.answers, self.expected_no_answer)

    @cached_property
    def weights(self) -> FloatArray:
        """The weight of each question, (n,); their mean is 1."""
        if self.split.answerable.all():
            return np.ones(len(self.split))
        return kind_weights(self.split.answerable, self.expected_no_answer)

    @cached_property
    def questions(self) -> list[QuestionScore]:
        """The scores of each question."""
        return evaluate(*self.answers, self.threshold).questions

    def scores(self, name: str) -> FloatArray:
        """EM, F1 or AvNA of each question in percent, without weights: (n,)."""
        return np.array([100.0 * getattr(question, name) for question in self.questions])

    @property
    def auc(self) -> float | None:
        """The area under the ROC curve of the no-answer score."""
        return no_answer_auc(self.answers[1].margin, self.split.answerable)

    def write(self, file: Path) -> None:
        """Write the answers as a Parquet file."""
        argmax = argmax_threshold(self.trained.allows_no_answer)
        facts = {"split": "validation", "expected_no_answer": self.expected_no_answer}
        facts = {**facts_about(self.trained.folder), **facts}
        write_predictions(file, *self.answers, argmax, self.threshold, facts)


def validate(
    answers: Mapping[Trained, Answers], expected_no_answer: float
) -> dict[Trained, Validated]:
    """The answers to the questions that all trainings share, without generated negatives."""
    own = {trained: without_negatives(given) for trained, given in answers.items()}
    first, *others = (split.ids for split, _ in own.values())
    shared = set(first).intersection(*others)
    ids = [id for id in first if id in shared]
    if not ids:
        sys.exit("The trainings share no question of validation. Give those of one dataset.")
    return {
        trained: Validated(trained, select(given, ids), expected_no_answer)
        for trained, given in own.items()
    }


def table(rows: Sequence[Row], validated: Mapping[Trained, Validated]) -> list[dict[str, str]]:
    """A table row for each row. Gains are over the first row; intervals resample questions and
    seeds, and p-values are corrected over the other rows."""
    of_rows = [[validated[trained] for trained in row.trainings] for row in rows]
    f1 = [_weighted(seeds, "f1") for seeds in of_rows]
    resampled = {str(n): resampled_means(own, f1[0]) for n, own in enumerate(f1) if n}
    corrected = holm({n: p_value(means) for n, means in resampled.items()})
    cells = []
    for number, (row, seeds) in enumerate(zip(rows, of_rows, strict=True)):
        gain, p = "reference", "–"
        if number:
            mean = float(f1[number].mean() - f1[0].mean())
            significance = corrected[str(number)]
            gain = starred(gain_of(mean, resampled[str(number)]), significance)
            p = f"{significance:.3f}"
        scores = {"F1 gain, 95 % over questions and seeds": gain, "p (Holm)": p}
        cells.append({**_description(row), **_scores(seeds), **scores})
    return cells


def _description(row: Row) -> dict[str, str]:
    return {
        "variant": row.variant,
        "settings": row.settings or "–",
        "epochs": str(row.epochs),
        "epoch kept": ", ".join(str(trained.facts["epoch"]) for trained in row.trainings),
        "seeds": ", ".join(str(trained.seed) for trained in row.trainings),
    }


def _weighted(seeds: Sequence[Validated], name: str) -> FloatArray:
    """The weighted scores of each question, in percent: (seeds, n)."""
    return np.array([own.weights * own.scores(name) for own in seeds])


def _scores(seeds: Sequence[Validated]) -> dict[str, str]:
    answerable = seeds[0].split.answerable
    f1 = _weighted(seeds, "f1")
    plain = np.array([own.scores("f1") for own in seeds])
    columns = {
        "questions": f"{len(answerable):,}",
        "EM": f"{_weighted(seeds, 'em').mean():.2f}",
        "F1": f"{f1.mean():.2f}",
        "F1 of each seed": ", ".join(f"{mean:.2f}" for mean in f1.mean(axis=1)),
    }
    if answerable.all():
        return columns
    return columns | {
        f"F1 answerable ({int(answerable.sum()):,})": f"{plain[:, answerable].mean():.2f}",
        f"F1 unanswerable ({int((~answerable).sum()):,})": f"{plain[:, ~answerable].mean():.2f}",
        "AvNA": f"{_weighted(seeds, 'avna').mean():.2f}",
        "AUC": f"{np.mean([own.auc for own in seeds]):.3f}",
        "threshold": ", ".join(f"{own.threshold:.2f}" for own in seeds),
    }


def write_gains(
    out: Path,
    name: str,
    program: str,
    answers: Mapping[Trained, Answers],
    expected_no_answer: float,
    **facts: Any,
) -> None:
    """Write the table of trainings as NAME.md and NAME.json, and each training's answers as
    validation-….parquet."""
    rows = rows_of(list(answers))
    validated = validate(answers, expected_no_answer)
    for trained, own in validated.items():
        own.write(out / f"validation-{trained.file_name}")
    trainings = [
        {"answers": f"validation-{trained.file_name}", **trained.summary} for trained in answers
    ]
    facts = {"expected_no_answer": expected_no_answer, "trainings": trainings, **facts}
    write_table(out, name, program, table(rows, validated), **facts)
