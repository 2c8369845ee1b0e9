"""Attention weights as drawings: tokens on both axes, darker where the weight is higher."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tasks.reports.examples import Span

if TYPE_CHECKING:
    from tasks.inference.predictor import Attended, Offsets

Weights = npt.NDArray[np.floating]

CELL = 14
"""Width and height of a cell, in the drawing's units."""
LETTER, LONGEST = 7.0, 16
"""About the width of a letter; so many letters of a token are shown."""
LEVELS = 8
"""Shades; what is below half the first one is left blank."""
MOST_TOKENS = 160
"""Tokens of a context that are drawn, those around its answers."""
STRONGEST = 3
NULL = "∅"
"""The token before each text that stands for "no answer"."""


@dataclass(frozen=True)
class Token:
    """A token on an axis."""

    text: str
    gold: bool = False
    predicted: bool = False
    behind_a_gap: bool = False  # others, between it and the one before, are not drawn

    @property
    def label(self) -> str:
        """What stands at the axis."""
        return f"… {self.text}" if self.behind_a_gap else self.text


@dataclass(frozen=True)
class Heatmap:
    """What the template draws: a map's labels, and a path of unit cells for each of its shades."""

    title: str
    note: str
    rows: Sequence[Token]
    columns: Sequence[Token]
    paths: list[str]  # LEVELS of them, the lightest first
    peak: float  # the weight of the darkest shade
    strongest: list[tuple[str, str, float]]  # row, column, weight

    @property
    def left(self) -> float:
        """Where the cells begin, behind the rows' labels."""
        return _room(self.rows)

    @property
    def top(self) -> float:
        """Where the cells begin, below the columns' labels."""
        return _room(self.columns)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return self.left + CELL * len(self.columns) + 4, self.top + CELL * len(self.rows) + 4


def heatmaps(
    question: str, context: str, attended: "Attended", golds: Sequence[Span], predicted: Span
) -> list[Heatmap]:
    """C2Q, Q2C and, where the model has it, self-attention of one example.

    `golds` and `predicted` are the characters of the context that the axes mark.
    """
    asked = [Token(NULL), *(Token(_short(question[s:e])) for s, e in attended.question_offsets)]
    tokens = _context_tokens(context, attended.context_offsets, golds, predicted)
    shown = _window(tokens)
    of_context = _labelled(tokens, shown)
    weights = attended.weights
    to_question = weights.context_to_question[0].T.numpy()[:, shown]
    to_context = weights.question_to_context[0].numpy()[:, shown]
    of_question = asked if len(to_context) > 1 else [Token("question")]
    maps = [
        _heatmap(
            "Context to question",
            "What each token of the context (a column, whose weights sum to 1) looks at.",
            asked,
            of_context,
            to_question,
        ),
        _heatmap(
            "Question to context",
            "What the question looks at: the weights of a row sum to 1 over all that is read.",
            of_question,
            of_context,
            to_context,
        ),
    ]
    if weights.self_attention is not None:
        among = weights.self_attention[0].numpy()[np.ix_(shown, shown)]
        note = "What each token of the context (a row) finds in the others (the columns)."
        maps.append(_heatmap("Self-attention", note, of_context, of_context, among))
    return maps


def _context_tokens(
    context: str, offsets: "Offsets", golds: Sequence[Span], predicted: Span
) -> list[Token]:
    def within(start: int, end: int, spans: Sequence[Span]) -> bool:
        return any(first < end and start < last for first, last in spans)

    marked = [
        Token(_short(context[s:e]), within(s, e, golds), within(s, e, [predicted]))
        for s, e in offsets
    ]
    return [Token(NULL), *marked]


def _short(token: str) -> str:
    return token if len(token) <= LONGEST else f"{token[: LONGEST - 1]}…"


def _window(tokens: Sequence[Token]) -> list[int]:
    """The null token, and at most `MOST_TOKENS` others: those around what is marked first, or half
    of them around the first gold token and half around the first predicted one where these are too
    far apart."""
    golds = [i for i, token in enumerate(tokens) if token.gold]
    predicted = [i for i, token in enumerate(tokens) if token.predicted]
    marks = sorted([*golds[:1], *predicted[:1]]) or [0]
    first, last = marks[0], marks[-1]
    if len(tokens) <= MOST_TOKENS or last - first < MOST_TOKENS // 2:
        return [0, *_around(first, MOST_TOKENS, len(tokens))]
    half = MOST_TOKENS // 2
    both = {*_around(first, half, len(tokens)), *_around(last, half, len(tokens))}
    return [0, *sorted(both)]


def _around(middle: int, size: int, tokens: int) -> range:
    """A stretch of a context that, with the null token, has so many tokens."""
    first = max(1, min(middle - size // 2, tokens - size))
    return range(first, min(first + size, tokens))


def _labelled(tokens: Sequence[Token], shown: Sequence[int]) -> list[Token]:
    """The tokens shown, those told apart before which others are left out."""
    return [replace(tokens[i], behind_a_gap=i > before + 1) for before, i in pairwise([-1, *shown])]


def _heatmap(
    title: str, note: str, rows: Sequence[Token], columns: Sequence[Token], weights: Weights
) -> Heatmap:
    peak = float(weights.max())
    levels = np.rint(LEVELS * weights / peak).astype(int) if peak > 0 else np.zeros_like(weights)
    order = np.argsort(-weights, axis=None, kind="stable")[:STRONGEST]
    places = [divmod(int(place), len(columns)) for place in order]
    return Heatmap(
        title=title,
        note=note,
        rows=rows,
        columns=columns,
        paths=[_cells(levels == level) for level in range(1, LEVELS + 1)],
        peak=peak,
        strongest=[(rows[r].text, columns[c].text, float(weights[r, c])) for r, c in places],
    )


def _cells(filled: npt.NDArray[np.bool_]) -> str:
    """A path over the cells that are filled, a stretch of a row at a time."""
    parts = []
    for y, row in enumerate(filled.tolist()):
        x = 0
        for there, group in groupby(row):
            length = len(list(group))
            if there:
                parts.append(f"M{x} {y}h{length}v1h-{length}z")
            x += length
    return "".join(parts)


def _room(tokens: Sequence[Token]) -> float:
    return 10 + LETTER * max(len(token.label) for token in tokens)
