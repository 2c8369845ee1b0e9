"""The page that shows, side by side, the questions that two runs answer differently."""

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
from tasks.reports.examples import example, marked_segments, rows_by_confidence
from tasks.reports.html import render

View = dict[str, Any]

SHOWN = 100
"""Maximum number of questions shown per group, most confident answers first."""


@dataclass(frozen=True)
class ScoredRun:
    """A run's name, and the folders of its predictions and of the ingested evaluation split."""

    name: str
    trained: Path
    evaluation: Path


@dataclass(frozen=True)
class AnswerChange:
    """A group of questions by which runs are correct, and how many of them have two answers."""

    name: str
    questions: int
    different: int


@dataclass(frozen=True)
class Comparison:
    """The four groups of questions, and the gain in F1 points of the second run over the first."""

    changes: list[AnswerChange]
    gain: Gain


def write_differences(out_file: Path, first: ScoredRun, second: ScoredRun) -> Comparison:
    """Write the page on the questions that two runs answer differently. Returns the comparison.

    Raises:
        UserError: the runs were evaluated on different questions.
    """
    split = load_split(first.evaluation)
    _require_same(first, split, second, load_split(second.evaluation))
    answers = first_answers, second_answers = [
        read_predictions(run.trained / "predictions.parquet", split, run.name)
        for run in (first, second)
    ]
    masks = _masks(first.name, second.name, first_answers["em"] == 1, second_answers["em"] == 1)
    differ = first_answers["prediction"] != second_answers["prediction"]
    comparison = Comparison(
        [
            AnswerChange(name, int(mask.sum()), int((mask & differ).sum()))
            for name, mask in masks.items()
        ],
        paired_gain(100 * first_answers["f1"], 100 * second_answers["f1"]),
    )
    view = {
        "names": (first.name, second.name),
        "created": datetime.now().astimezone(),
        "questions": len(split),
        "scores": [_scores(columns) for columns in answers],
        "comparison": comparison,
        "groups": [_rows(answers, split, mask & differ) for mask in masks.values()],
    }
    out_file.write_text(render("diff.html.j2", view), encoding="utf-8")
    return comparison


def _require_same(
    first: ScoredRun, split: EvaluationSplit, second: ScoredRun, second_split: EvaluationSplit
) -> None:
    def examples(split: EvaluationSplit) -> list[Any]:
        contexts = [split.context(row) for row in range(len(split))]
        return list(zip(split.ids, split.questions, split.golds, contexts, strict=True))

    if first.evaluation != second.evaluation and examples(split) != examples(second_split):
        raise UserError(
            f"{first.name} and {second.name} were evaluated on different questions ({len(split)} "
            f"and {len(second_split)}). Choose two runs with the same evaluation set."
        )


def _masks(
    first: str, second: str, first_correct: BoolArray, second_correct: BoolArray
) -> dict[str, BoolArray]:
    return {
        f"Only {second} is correct": ~first_correct & second_correct,
        f"Only {first} is correct": first_correct & ~second_correct,
        "Both are wrong": ~first_correct & ~second_correct,
        "Both are correct": first_correct & second_correct,
    }


def _scores(columns: Columns) -> tuple[float, float]:
    all_questions = np.ones(len(columns["em"]), bool)
    return mean(columns["em"], all_questions), mean(columns["f1"], all_questions)


def _rows(answers: Sequence[Columns], split: EvaluationSplit, mask: BoolArray) -> list[View]:
    """The selected questions with the highest product of the two runs' confidences."""
    order = rows_by_confidence({"score": answers[0]["score"] + answers[1]["score"]})
    rows = [row for row in order if mask[row]][:SHOWN]
    return [_row(answers, split, row) for row in rows]


def _row(answers: Sequence[Columns], split: EvaluationSplit, row: int) -> View:
    spans = [
        (int(columns["span_start_char"][row]), int(columns["span_end_char"][row]))
        for columns in answers
    ]
    return {
        "answers": [example(columns, split, row) for columns in answers],
        "segments": marked_segments(split.context(row), split.golds[row], *spans),
    }
