"""The page that shows, side by side, the questions that two runs answer differently."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.errors import UserError
from models.arrays import BoolArray
from tasks.evaluation.bootstrap import Gain, paired_gain
from tasks.evaluation.evaluate import Columns, EvaluationSplit, load_split, mean, read_predictions
from tasks.reports.examples import (
    example,
    marked_segments,
    predicted_span,
    rows_by_confidence,
)
from tasks.reports.html import View, write_page

# Maximum number of questions shown per group, most confident answers first.
SHOWN = 100


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
    split, other_split = load_split(first.evaluation), load_split(second.evaluation)
    if _examples(split) != _examples(other_split):
        raise UserError(
            f"{first.name} and {second.name} were evaluated on different questions ({len(split)} "
            f"and {len(other_split)}). Choose two runs with the same evaluation set."
        )
    answers = first_answers, second_answers = [
        read_predictions(run.trained / "predictions.parquet", split, run.name)
        for run in (first, second)
    ]
    first_correct, second_correct = (columns["em"] == 1 for columns in answers)
    masks = {
        f"Only {second.name} is correct": ~first_correct & second_correct,
        f"Only {first.name} is correct": first_correct & ~second_correct,
        "Both are wrong": ~first_correct & ~second_correct,
        "Both are correct": first_correct & second_correct,
    }
    differ = first_answers["prediction"] != second_answers["prediction"]
    comparison = Comparison(
        [
            AnswerChange(name, int(mask.sum()), int((mask & differ).sum()))
            for name, mask in masks.items()
        ],
        paired_gain(100 * first_answers["f1"], 100 * second_answers["f1"], split.group_of),
    )
    write_page(
        out_file,
        "diff.html.j2",
        names=(first.name, second.name),
        questions=len(split),
        scores=[(mean(columns["em"]), mean(columns["f1"])) for columns in answers],
        comparison=comparison,
        groups=[_group(answers, split, mask & differ) for mask in masks.values()],
    )
    return comparison


def _examples(split: EvaluationSplit) -> list[Any]:
    """The data of each question that two runs must share to be compared."""
    return [
        (split.ids[row], split.questions[row], split.golds[row], split.context(row))
        for row in range(len(split))
    ]


def _group(answers: Sequence[Columns], split: EvaluationSplit, mask: BoolArray) -> list[View]:
    """The selected questions with the highest product of the two runs' confidences."""
    rows = rows_by_confidence(answers[0]["score"] + answers[1]["score"], mask)
    return [
        {
            "answers": [example(columns, split, row) for columns in answers],
            "segments": marked_segments(
                split.context(row),
                split.golds[row],
                *(predicted_span(columns, row) for columns in answers),
            ),
        }
        for row in rows[:SHOWN]
    ]
