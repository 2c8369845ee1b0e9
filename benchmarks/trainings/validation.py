"""Scores and gains of trainings on the questions of validation that they share.

Questions are weighted so that unanswerable ones have the share that is expected in use. Each
training has its own no-answer threshold, the best one for these questions. If none of them is
unanswerable, every answer is a span.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.tables import write_table
from benchmarks.trainings.answered import Answered, Scores, read_answers
from benchmarks.trainings.rows import Row, rows_of
from models.arrays import FloatArray
from tasks.evaluation.significance import corrected_gains


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


@dataclass(frozen=True)
class Validated:
    """A training's answers to the shared questions, at its threshold."""

    answered: Answered
    expected_no_answer: float

    @cached_property
    def threshold(self) -> float:
        """The no-answer threshold; infinity if every answer is a span."""
        return self.answered.threshold(self.expected_no_answer)

    @cached_property
    def weights(self) -> FloatArray:
        """The weight of each question, (n,); their mean is 1."""
        return self.answered.weights(self.expected_no_answer)

    @cached_property
    def scores(self) -> Scores:
        """The scores of each question, without weights."""
        return self.answered.at(self.threshold)


def validate(answers: Mapping[str, Answered], expected_no_answer: float) -> dict[str, Validated]:
    """The answers to the questions that all trainings share, without generated negatives."""
    own = {name: given.without_negatives() for name, given in answers.items()}
    first, *others = (given.ids for given in own.values())
    shared = set(first).intersection(*others)
    ids = [id for id in first if id in shared]
    if not ids:
        sys.exit("The trainings share no question of validation. Give those of one dataset.")
    return {name: Validated(given.of(ids), expected_no_answer) for name, given in own.items()}


def table(rows: Sequence[Row], validated: Mapping[str, Validated]) -> list[dict[str, str]]:
    """A table row for each row. Gains are over the first row; intervals resample articles and
    seeds, and p-values are corrected over the other rows."""
    of_rows = [[validated[training.file_name] for training in row.trainings] for row in rows]
    f1 = [_weighted(seeds, "f1") for seeds in of_rows]
    articles = of_rows[0][0].answered.article
    gains = corrected_gains({str(n): (own, f1[0]) for n, own in enumerate(f1) if n}, articles)
    cells = []
    for number, (row, seeds) in enumerate(zip(rows, of_rows, strict=True)):
        gain = gains.get(str(number))
        columns = {
            "F1 gain, 95 %": gain.text if gain else "reference",
            "p (Holm)": f"{gain.p:.3f}" if gain else "–",
        }
        cells.append({**_description(row, seeds), **_scores(seeds), **columns})
    return cells


def _description(row: Row, seeds: Sequence[Validated]) -> dict[str, str]:
    return {
        "variant": row.variant,
        "settings": row.settings or "–",
        "epochs": str(row.epochs),
        "epoch kept": ", ".join(str(own.answered.facts["kept"]["epoch"]) for own in seeds),
        "seeds": ", ".join(str(training.seed) for training in row.trainings),
    }


def _weighted(seeds: Sequence[Validated], name: str) -> FloatArray:
    """The weighted scores of each question, in percent: (seeds, n)."""
    return np.array([own.weights * getattr(own.scores, name) for own in seeds])


def _scores(seeds: Sequence[Validated]) -> dict[str, str]:
    answerable = seeds[0].answered.answerable
    f1 = _weighted(seeds, "f1")
    plain = np.array([own.scores.f1 for own in seeds])
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
        "AUC": f"{np.mean([own.answered.auc for own in seeds]):.3f}",
        "threshold": ", ".join(f"{own.threshold:.2f}" for own in seeds),
    }


def write_gains(
    files: Sequence[Path], out: Path, name: str, program: str, expected: float, **facts: Any
) -> None:
    """Write the table of the trainings with these files of answers to validation as NAME.md and
    NAME.json, in order; `expected` is the share of unanswerable questions."""
    answered = [read_answers(file) for file in files]
    trainings = [own.training for own in answered]
    rows = rows_of(trainings)
    validated = validate(
        {training.file_name: own for training, own in zip(trainings, answered, strict=True)},
        expected,
    )
    summaries = [
        {"answers": file.name, **own.summary} for file, own in zip(files, answered, strict=True)
    ]
    facts = {"expected_no_answer": expected, "trainings": summaries, **facts}
    write_table(out, name, program, table(rows, validated), **facts)
