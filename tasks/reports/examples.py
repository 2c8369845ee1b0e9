"""A run's answers as the pages show them: the question, and the context with marked spans."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

import numpy as np

from models.arrays import BoolArray, FloatArray
from tasks.evaluation.evaluate import Columns, EvaluationSplit, Gold
from tasks.reports.html import View

# Characters [start, end) of a context; (-1, -1) for no answer.
Span = tuple[int, int]
# A piece of a context, whether it is in a gold span, and whether it is in each predicted span.
Segment = tuple[str, *tuple[bool, ...]]


def rows_by_confidence(scores: FloatArray, mask: BoolArray) -> list[int]:
    """The rows that a mask selects, by descending log-probability of the answer; both (n,)."""
    return [row for row in np.argsort(-scores, kind="stable").tolist() if mask[row]]


def first_per_context(rows: Iterable[int], split: EvaluationSplit, limit: int) -> list[int]:
    """The first row of each context; at most `limit` rows."""
    first: dict[int, int] = {}
    for row in rows:
        first.setdefault(int(split.context_of[row]), row)
    return list(first.values())[:limit]


def example(columns: Columns, split: EvaluationSplit, row: int) -> View:
    """The data of an answer for the template macro `example`."""
    value = {name: column[row] for name, column in columns.items()}
    return {
        "id": split.ids[row],
        "question": split.questions[row],
        "golds": list(dict.fromkeys(split.gold_texts[row])),
        "answerable": bool(split.answerable[row]),
        "prediction": value["prediction"],
        "segments": marked_segments(
            split.context(row), split.golds[row], predicted_span(columns, row)
        ),
        "confidence": 100 * math.exp(min(float(value["score"]), 0.0)),
        "no_answer": 100 * float(value["no_answer_probability"]) if split.v2 else None,
        "em": int(value["em"]),
        "f1": 100 * float(value["f1"]),
    }


def confident_examples(
    columns: Columns, split: EvaluationSplit, mask: BoolArray, limit: int
) -> list[View]:
    """The most confident of the answers that a mask selects: the first `limit`, one per context."""
    rows = first_per_context(rows_by_confidence(columns["score"], mask), split, limit)
    return [example(columns, split, row) for row in rows]


def predicted_span(columns: Columns, row: int) -> Span:
    """The span of the run's answer to a question."""
    return int(columns["span_start_char"][row]), int(columns["span_end_char"][row])


def gold_spans(context: str, golds: Iterable[Gold]) -> list[Span]:
    """The character spans of the gold answers whose text matches the context at their offset."""
    return [
        (gold.start, gold.start + len(gold.text))
        for gold in golds
        if gold.start >= 0 and context.startswith(gold.text, gold.start)
    ]


def marked_segments(context: str, golds: Sequence[Gold], *predicted: Span) -> list[Segment]:
    """Split a context where an answer begins or ends.

    Gold answers whose text does not match the context at their offset are not marked. Long unmarked
    segments are shortened in the middle.
    """
    marks = [gold_spans(context, golds), *([span] for span in predicted)]
    edges = (edge for mark in marks for span in mark for edge in span if edge >= 0)
    pieces = [
        (
            context[start:end],
            tuple(any(first <= start and end <= last for first, last in mark) for mark in marks),
        )
        for start, end in pairwise(sorted({0, len(context), *edges}))
    ]
    segments: list[Segment] = []
    for flags, group in groupby(pieces, key=lambda piece: piece[1]):
        text = "".join(piece[0] for piece in group)
        segments.append((text if any(flags) else _shortened(text), *flags))
    return segments


def _shortened(text: str, keep: int = 600) -> str:
    return text if len(text) <= 3 * keep else f"{text[:keep]} […] {text[-keep:]}"
