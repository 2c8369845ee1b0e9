"""Attention weights as heatmaps, with tokens on both axes; higher weights are darker."""

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
"""Width and height of a cell, in drawing units."""
LETTER, LONGEST = 7.0, 16
"""Approximate width of a character in drawing units; maximum characters shown of a token."""
LEVELS = 8
"""Number of shades; weights below half of the first shade are left blank."""
MOST_TOKENS = 160
"""Maximum number of context tokens drawn, those around the answers."""
STRONGEST = 3
NULL = "∅"
"""Label of the null token, which precedes each text and represents "no answer"."""


@dataclass(frozen=True)
class Token:
    """A token on an axis."""

    text: str
    gold: bool = False
    predicted: bool = False
    behind_a_gap: bool = False  # whether tokens right before it are not drawn

    @property
    def label(self) -> str:
        """The token's axis label."""
        return f"… {self.text}" if self.behind_a_gap else self.text


@dataclass(frozen=True)
class Heatmap:
    """A heatmap for the template: axis labels, and a path of unit cells for each shade."""

    title: str
    note: str
    rows: Sequence[Token]
    columns: Sequence[Token]
    paths: list[str]  # one per shade (LEVELS), lightest first
    peak: float  # the weight of the darkest shade
    strongest: list[tuple[str, str, float]]  # row, column, weight

    @property
    def left(self) -> float:
        """x at which the cells begin, right of the row labels."""
        return _room(self.rows)

    @property
    def top(self) -> float:
        """y at which the cells begin, below the column labels."""
        return _room(self.columns)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in drawing units."""
        return self.left + CELL * len(self.columns) + 4, self.top + CELL * len(self.rows) + 4


def heatmaps(
    question: str, context: str, attended: "Attended", golds: Sequence[Span], predicted: Span
) -> list[Heatmap]:
    """Heatmaps of one example: C2Q, Q2C, and self-attention if the model has it.

    `golds` and `predicted` are character spans of the context, which are marked on the axes.
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
    """Indices of the null token and of at most `MOST_TOKENS` others.

    These are around the first marked token. If the first gold and the first predicted token are too
    far apart, half are around each.
    """
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
    """Indices of up to `size` tokens around `middle`, without the null token."""
    first = max(1, min(middle - size // 2, tokens - size))
    return range(first, min(first + size, tokens))


def _labelled(tokens: Sequence[Token], shown: Sequence[int]) -> list[Token]:
    """The shown tokens, marked if tokens before them are left out."""
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
    """An SVG path over the filled cells, with one rectangle per run of cells in a row."""
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
