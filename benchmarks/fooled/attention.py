"""Whether a model attends to the words that make questions unanswerable.

Usage: python -m benchmarks.fooled.attention CATEGORIES.tsv ANSWERS.parquet DEV.json MODEL
       OUT_FOLDER [--expected-no-answer 0.5] [--note …]

CATEGORIES.tsv has the positions of these words; lines without positions are skipped (see
`benchmarks.fooled.questions`). ANSWERS.parquet and DEV.json are those that the questions were drawn
from, and MODEL is the folder of the model that gave the answers, such as
ROOT/stages/train/KEY/model.

Each context token attends to all tokens of the question (context-to-question attention). Of this,
the program takes what the answer and the five tokens on each side of it give to a changed token,
and to another word of the question, on average, in percent of their attention. Intervals resample
the questions. OUT_FOLDER gets fooled-attention.json and .md.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.common.arguments import existing_file
from benchmarks.common.tables import write_table
from benchmarks.fooled.questions import (
    ReadQuestion,
    answered_spans,
    read_categories,
    unanswerable,
)
from benchmarks.trainings.validation import add_expected_no_answer
from models.arrays import FloatArray, IntArray
from tasks.evaluation.significance import bootstrap
from tasks.inference.predictor import INCOMPATIBLE, Offsets, Predictor
from tasks.text.tokenizer import tokenize

PROGRAM = "benchmarks.fooled.attention"
NEAR = 5  # tokens on each side of the answer
ALL = "all"


class Shares(NamedTuple):
    """The attention to a changed token and to another word, on average, in percent."""

    changed: float
    others: float


def near(context: Offsets, span: tuple[int, int]) -> IntArray:
    """Positions of the context's tokens in a span of characters, and within NEAR tokens of it."""
    inside = [i for i, (start, end) in enumerate(context) if start < span[1] and end > span[0]]
    return np.arange(max(inside[0] - NEAR, 0), min(inside[-1] + 1 + NEAR, len(context)))


def shares(
    to_question: FloatArray, rows: IntArray, words: Sequence[int], changed: Sequence[int]
) -> Shares:
    """The attention of the context tokens `rows` to a changed token and to one of the other
    `words`, from `to_question` (T, J), whose position 0 is the null token."""
    attention = 100 * to_question[rows + 1].mean(0)[1:]
    others = [word for word in words if word not in changed]
    return Shares(float(attention[list(changed)].mean()), float(attention[others].mean()))


def measure(
    predictor: Predictor, read: ReadQuestion, text: str, context: str, span: tuple[int, int]
) -> Shares:
    """The shares of a question that the model answers with a span of characters of its context."""
    tokens = tokenize(text)
    words = [i for i, (start, end) in enumerate(tokens) if any(map(str.isalnum, text[start:end]))]
    if max(read.changed) >= len(tokens) or set(words) <= set(read.changed):
        sys.exit(
            f"{read.id} has {len(tokens)} tokens, counted from 0, and at least one word must be "
            f"unchanged. The positions are {read.changed}."
        )
    attention = predictor.attention(text, context, span[0])
    return shares(
        attention.weights.context_to_question[0].numpy().astype(np.float64),
        near(attention.context_offsets, span),
        words,
        read.changed,
    )


def table(measured: Iterable[tuple[str, Shares]]) -> list[dict[str, str]]:
    """A row for all questions, and one for each category, the largest first."""
    groups: dict[str, list[Shares]] = defaultdict(list)
    for category, of_question in measured:
        groups[ALL].append(of_question)
        groups[category].append(of_question)
    return [
        _row(category, np.array(group))
        for category, group in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]


def _row(category: str, group: FloatArray) -> dict[str, str]:
    changed, others = group.T[:, None]
    return {
        "category": category,
        "questions": str(len(group)),
        "attention to a changed token": f"{changed.mean():.1f} %",
        "to another word": f"{others.mean():.1f} %",
        # One question says nothing about others.
        "difference": bootstrap(changed, others).text if len(group) > 1 else "–",
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("categories", type=existing_file, metavar="CATEGORIES.tsv")
    parser.add_argument("answers", type=existing_file, metavar="ANSWERS.parquet")
    parser.add_argument("dev", type=existing_file, metavar="DEV.json")
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("--note", default="", help="note to record with the results")
    add_expected_no_answer(parser)
    arguments = parser.parse_args()
    changed = {read.id: read for read in read_categories(arguments.categories) if read.changed}
    if not changed:
        parser.error(f"{arguments.categories} has no positions of changed tokens")
    spans = answered_spans(arguments.answers, arguments.expected_no_answer)
    try:
        predictor = Predictor.load(arguments.model)
    except (OSError, *INCOMPATIBLE) as error:
        parser.error(f"{arguments.model} is not a model's folder: {error}")
    measured = [
        (changed[id].category, measure(predictor, changed[id], entry["question"], context, span))
        for context, entry in unanswerable(arguments.dev)
        if (id := entry["id"]) in changed and (span := spans.get(id))
    ]
    if len(measured) < len(changed):
        sys.exit(
            f"{len(changed) - len(measured)} of the {len(changed)} questions with positions are no "
            f"unanswerable questions of {arguments.dev} that {arguments.answers} answers."
        )
    write_table(arguments.out, "fooled-attention", PROGRAM, table(measured), note=arguments.note)


if __name__ == "__main__":
    main()
