"""Attention weights as heatmaps, with tokens on both axes; higher weights are darker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tasks.reports.examples import Span

if TYPE_CHECKING:
    from tasks.inference.predictor import TokenAttention

Weights = npt.NDArray[np.floating]

# Maximum number of characters shown of a token.
MAX_LABEL = 16
# Number of shades; weights below half of the first shade are left blank.
LEVELS = 8
# Maximum number of context tokens drawn, those around the answers.
MAX_TOKENS = 160
# Number of highest weights that are listed.
STRONGEST = 3
# Label of the null token, which precedes each text and represents "no answer".
NULL = "∅"


@dataclass(frozen=True)
class Token:
    """A token on an axis."""

    text: str
    gold: bool = False
    predicted: bool = False
    follows_gap: bool = False  # whether the tokens right before it are left out

    @property
    def label(self) -> str:
        """The token's axis label."""
        return f"… {self.text}" if self.follows_gap else self.text


@dataclass(frozen=True)
class Heatmap:
    """A heatmap for the template: axis labels, and a path of unit cells for each shade."""

    rows: Sequence[Token]
    columns: Sequence[Token]
    paths: list[str]  # one per shade (LEVELS), lightest first
    peak: float  # the weight of the darkest shade
    strongest: list[tuple[str, str, float]]  # row, column, weight


def heatmaps(
    question: str, context: str, attention: "TokenAttention", golds: Sequence[Span], predicted: Span
) -> list[Heatmap]:
    """Heatmaps of one example: C2Q, Q2C, and self-attention if the model has it, in this order.

    `golds` and `predicted` are character spans of the context, which are marked on the axes.
    """
    question_tokens = [
        Token(NULL),
        *(Token(_short(question[start:end])) for start, end in attention.question_offsets),
    ]
    tokens = [
        Token(NULL),
        *(
            Token(
                _short(context[start:end]),
                _overlaps(start, end, golds),
                _overlaps(start, end, [predicted]),
            )
            for start, end in attention.context_offsets
        ),
    ]
    shown = _window(tokens)
    context_tokens = [
        replace(tokens[i], follows_gap=i > before + 1) for before, i in pairwise([-1, *shown])
    ]
    weights = attention.weights
    to_context = weights.question_to_context[0].numpy()[:, shown]
    to_context_rows = question_tokens if len(to_context) > 1 else [Token("question")]
    maps = [
        _heatmap(
            question_tokens, context_tokens, weights.context_to_question[0].T.numpy()[:, shown]
        ),
        _heatmap(to_context_rows, context_tokens, to_context),
    ]
    if weights.self_attention is not None:
        within_context = weights.self_attention[0].numpy()[np.ix_(shown, shown)]
        maps.append(_heatmap(context_tokens, context_tokens, within_context))
    return maps


def _overlaps(start: int, end: int, spans: Sequence[Span]) -> bool:
    return any(first < end and start < last for first, last in spans)


def _short(token: str) -> str:
    return token if len(token) <= MAX_LABEL else f"{token[: MAX_LABEL - 1]}…"


def _window(tokens: Sequence[Token]) -> list[int]:
    """Indices of the null token and of at most `MAX_TOKENS` others.

    These are around the first marked token. If the first gold and the first predicted token are too
    far apart, half are around each.
    """
    golds = [i for i, token in enumerate(tokens) if token.gold]
    predicted = [i for i, token in enumerate(tokens) if token.predicted]
    marks = sorted([*golds[:1], *predicted[:1]]) or [0]
    if len(tokens) <= MAX_TOKENS or marks[-1] - marks[0] < MAX_TOKENS // 2:
        marks = marks[:1]
    windows = [_around(mark, MAX_TOKENS // len(marks), len(tokens)) for mark in marks]
    return sorted({0}.union(*windows))


def _around(middle: int, size: int, tokens: int) -> range:
    """Indices of up to `size` tokens around `middle`, without the null token."""
    first = max(1, min(middle - size // 2, tokens - size))
    return range(first, min(first + size, tokens))


def _heatmap(rows: Sequence[Token], columns: Sequence[Token], weights: Weights) -> Heatmap:
    peak = float(weights.max())
    levels = np.rint(LEVELS * weights / peak).astype(int) if peak > 0 else np.zeros_like(weights)
    order = np.argsort(-weights, axis=None, kind="stable")[:STRONGEST]
    positions = [divmod(int(index), len(columns)) for index in order]
    return Heatmap(
        rows=rows,
        columns=columns,
        paths=[_cells(levels == level) for level in range(1, LEVELS + 1)],
        peak=peak,
        strongest=[(rows[r].text, columns[c].text, float(weights[r, c])) for r, c in positions],
    )


def _cells(mask: npt.NDArray[np.bool_]) -> str:
    """An SVG path over the filled cells, with one rectangle per run of cells in a row."""
    steps = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(int))
    starts, ends = np.argwhere(steps == 1), np.argwhere(steps == -1)[:, 1]
    runs = zip(*starts.T, ends - starts[:, 1], strict=True)
    return "".join(f"M{x} {y}h{length}v1h-{length}z" for y, x, length in runs)
