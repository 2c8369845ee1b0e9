"""The page that shows two runs' differing answers to the same questions side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from infra.errors import UserError
from models.arrays import BoolArray
from tasks.evaluation.bootstrap import Gain, paired_gain
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.evaluation.predictions import Columns, mean, read_predictions
from tasks.reports.examples import example, marked_segments, surest_first
from tasks.reports.html import TEMPLATES, Template

View = dict[str, Any]

TEMPLATE = Template(TEMPLATES / "diff.html.j2")
SHOWN = 100
"""Maximum number of questions shown per outcome, most confident answers first."""


@dataclass(frozen=True)
class Scored:
    """A run's name, and the folders of its answers and of the ingested evaluation split."""

    name: str
    trained: Path
    evaluation: Path


@dataclass(frozen=True)
class Outcome:
    """Which runs are right, on how many questions, and on how many of these the answers differ."""

    name: str
    questions: int
    different: int


@dataclass(frozen=True)
class Comparison:
    """The four outcomes, and the gain in F1 points of the second run over the first."""

    outcomes: list[Outcome]
    gain: Gain


def write_differences(
    out_file: Path, first: Scored, second: Scored, template: Template = TEMPLATE
) -> Comparison:
    """Write the page on the questions that two runs answer differently. Returns the comparison.

    Raises:
        UserError: the runs were scored on different questions.
    """
    split = load_split(first.evaluation)
    _require_same(first, split, second, load_split(second.evaluation))
    answers = one, other = [
        read_predictions(run.trained / "predictions.parquet", split, run.name)
        for run in (first, second)
    ]
    masks = _outcomes(first.name, second.name, one["em"] == 1, other["em"] == 1)
    differ = one["prediction"] != other["prediction"]
    compared = Comparison(
        [
            Outcome(name, int(mask.sum()), int((mask & differ).sum()))
            for name, mask in masks.items()
        ],
        paired_gain(100 * one["f1"], 100 * other["f1"]),
    )
    view = {
        "names": (first.name, second.name),
        "made": datetime.now().astimezone(),
        "questions": len(split),
        "scores": [_scores(one) for one in answers],
        "compared": compared,
        "groups": [_rows(answers, split, mask & differ) for mask in masks.values()],
    }
    out_file.write_text(template.render(view), encoding="utf-8")
    return compared


def _require_same(
    first: Scored, split: EvaluationSplit, second: Scored, other: EvaluationSplit
) -> None:
    def asked(of: EvaluationSplit) -> list[Any]:
        contexts = [of.context(row) for row in range(len(of))]
        return list(zip(of.ids, of.questions, of.golds, contexts, strict=True))

    if first.evaluation != second.evaluation and asked(split) != asked(other):
        raise UserError(
            f"{first.name} and {second.name} were scored on different questions ({len(split)} and "
            f"{len(other)} of them); choose two runs that were scored on the same data."
        )


def _outcomes(first: str, second: str, one: BoolArray, other: BoolArray) -> dict[str, BoolArray]:
    return {
        f"Only {second} is right": ~one & other,
        f"Only {first} is right": one & ~other,
        "Both are wrong": ~one & ~other,
        "Both are right": one & other,
    }


def _scores(columns: Columns) -> tuple[float, float]:
    everything = np.ones(len(columns["em"]), bool)
    return mean(columns["em"], everything), mean(columns["f1"], everything)


def _rows(answers: Sequence[Columns], split: EvaluationSplit, wanted: BoolArray) -> list[View]:
    """The questions of an outcome with the highest confidence of both runs together."""
    together = surest_first({"score": answers[0]["score"] + answers[1]["score"]})
    rows = [row for row in together if wanted[row]][:SHOWN]
    return [_row(answers, split, row) for row in rows]


def _row(answers: Sequence[Columns], split: EvaluationSplit, row: int) -> View:
    spans = [(int(one["span_start_char"][row]), int(one["span_end_char"][row])) for one in answers]
    return {
        "answers": [example(one, split, row) for one in answers],
        "segments": marked_segments(split.context(row), split.golds[row], *spans),
    }
