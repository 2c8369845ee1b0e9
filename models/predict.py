"""Predictions of a model for any number of examples, and the training loss."""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from models.arrays import IntArray
from models.batching import (
    Examples,
    ResidentExamples,
    Types,
    sorted_batches,
    target_positions,
)
from models.bidaf import BiDAF
from models.configs.variant import ModelConfig, Window
from models.modules.layers import MASKED
from models.sliding_windows import Windows, cut
from models.span_decoding import (
    Predictions,
    TemperedPredictions,
    best_spans,
    span_scores,
    top_spans,
    total_at,
)

# Context tokens in one prediction batch, including padding, and also question tokens: bounds memory
# on long texts.
EVALUATION_TOKENS = 32_768

# Pairs of tokens in one prediction batch whose attention weights are computed: of a context token
# and a question token, or with self-attention of two context tokens. 128 MiB per matrix. This is
# the tighter bound if both texts have 1,024 tokens or more.
EVALUATION_PAIRS = 1_024 * EVALUATION_TOKENS


# The longest text that is read at once. `seo2016`, the largest variant, takes 21 kB for a token.
LONGEST_CONTEXT = 131_072

# The temperatures that are tried: from 1/4 to 4, each 7 % above the one before.
TEMPERATURES = tuple(2 ** (step / 10) for step in range(-20, 21))


def longest_context(config: ModelConfig, window: Window | None) -> float:
    """The most tokens of a context that fit into a prediction batch: fewer with self-attention,
    whose memory grows with their square; infinite with windows."""
    if window is not None:
        return math.inf
    if config.self_attention == "none":
        return LONGEST_CONTEXT
    return math.isqrt(EVALUATION_PAIRS) - 1  # for the null token


def span_nll(start: Tensor, end: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Negative log-likelihood of each example's span, start + end, in nats: (B,).

    Takes the logits (B, T) and the positions of the span (B,), -1 for none.
    """
    return F.cross_entropy(start, first, reduction="none", ignore_index=-1) + F.cross_entropy(
        end, last, reduction="none", ignore_index=-1
    )


@torch.no_grad()
def predict(
    model: BiDAF,
    examples: Examples,
    types: Types,
    max_answer_tokens: int,
    window: Window | None = None,
    batches: slice = slice(None),
    temperature: float = 1.0,
) -> tuple[Predictions, npt.NDArray[np.float64]]:
    """The best span of each example, in order, and the NLL of its target: (n,), nats, NaN without a
    target.

    With a `window`, longer contexts are read in windows of this size, so that memory does not grow
    with their length. Only the prediction batches in `batches` are computed; the numbers of all
    other examples are 0.
    """
    spans = np.zeros((2, len(examples)), dtype=np.int64)
    scores = np.zeros((3, len(examples)))  # of the span and of no answer, and the target's NLL
    logits = _Logits(model, examples, types, window)
    for rows in islice(logits.batches(), batches.start, batches.stop, batches.step):
        start, end = logits.compute(rows)
        first, last, score, no_answer = best_spans(start, end, max_answer_tokens, temperature)
        spans[:, rows] = torch.stack([first, last]).cpu().numpy() - 1
        targets = [
            target_positions(positions[rows], examples.impossible[rows]).to(start.device)
            for positions in (examples.span_start, examples.span_end)
        ]
        nll = span_nll(start, end, *targets).masked_fill(targets[0] < 0, torch.nan)
        scores[:, rows] = torch.stack([score, no_answer, nll.double()]).cpu().numpy()
    return Predictions(*spans, *scores[:2]), scores[2]


@torch.no_grad()
def predict_top(
    model: BiDAF,
    examples: Examples,
    types: Types,
    max_answer_tokens: int,
    count: int,
    window: Window | None = None,
    temperature: float = 1.0,
) -> list[Predictions]:
    """For each example its `count` likeliest spans, likeliest first, one row per span; see
    `top_spans`. Long contexts are read as in `predict`."""
    logits = _Logits(model, examples, types, window)
    spans: dict[int, Predictions] = {}
    for rows in logits.batches():
        for row, start, end in zip(rows.tolist(), *logits.compute(rows), strict=True):
            spans[row] = top_spans(start, end, max_answer_tokens, count, temperature)
    return [spans[row] for row in range(len(examples))]


@torch.no_grad()
def predict_scores(
    model: BiDAF,
    examples: Examples,
    types: Types,
    max_answer_tokens: int,
    window: Window | None = None,
    temperature: float = 1.0,
) -> list[tuple[Tensor, Tensor]]:
    """For each example the log-probabilities of all its spans and of no answer; see `span_scores`.

    Those of the spans are (T + 1, L) for a context of T tokens, where L is `max_answer_tokens`, or
    T + 1 if it is shorter. Long contexts are read as in `predict`.
    """
    logits = _Logits(model, examples, types, window)
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for rows in logits.batches():
        scores, no_answer = span_scores(*logits.compute(rows), max_answer_tokens, temperature)
        for row, own, none in zip(rows.tolist(), scores.cpu(), no_answer.cpu(), strict=True):
            length = int(examples.context_lengths[row]) + 1
            found[row] = own[:length, : min(max_answer_tokens, length)].clone(), none
    return [found[row] for row in range(len(examples))]


@torch.no_grad()
def predict_tempered(
    model: BiDAF,
    examples: Examples,
    types: Types,
    max_answer_tokens: int,
    window: Window | None = None,
) -> TemperedPredictions:
    """The best span of each example, in order, and its probabilities at all `TEMPERATURES`. Long
    contexts are read as in `predict`."""
    spans = np.zeros((2, len(examples)), dtype=np.int64)
    scores = np.zeros((2, len(examples)))
    totals = np.zeros((len(examples), len(TEMPERATURES)))
    logits = _Logits(model, examples, types, window)
    for rows in logits.batches():
        start, end = logits.compute(rows)
        first, last, *best = best_spans(start, end, max_answer_tokens)
        spans[:, rows] = torch.stack([first, last]).cpu().numpy() - 1
        scores[:, rows] = torch.stack(best).cpu().numpy()
        scored = span_scores(start, end, max_answer_tokens)
        at = [total_at(*scored, temperature) for temperature in TEMPERATURES]
        totals[rows] = torch.stack(at, 1).cpu().numpy()
    return TemperedPredictions(Predictions(*spans, *scores), TEMPERATURES, totals)


class _Logits:
    """Computes the logits of examples, from windows if their contexts are too long."""

    def __init__(
        self, model: BiDAF, examples: Examples, types: Types, window: Window | None
    ) -> None:
        self.model = model.eval()
        self.windows: Windows | None = None
        self.lengths = examples.context_lengths
        if window is not None and self.lengths.max(initial=0) > window.tokens:
            self.windows = cut(examples, window)
            examples = self.windows.examples
        device = next(model.parameters()).device
        self.resident = ResidentExamples(examples, types, model.max_characters, device)
        self.questions = examples.questions.lengths

    def batches(self) -> Iterator[npt.NDArray[np.intp]]:
        """Rows of the examples whose logits are computed together."""
        if self.windows is None:
            return self._bounded(self.lengths, self.questions)
        no_questions = np.zeros_like(self.lengths)  # only the joined logits are in memory together
        return sorted_batches(self.lengths, no_questions, EVALUATION_TOKENS)

    def _bounded(self, contexts: IntArray, questions: IntArray) -> Iterator[npt.NDArray[np.intp]]:
        """Rows of texts of these lengths that the model reads together."""
        has_self_attention = self.model.config.self_attention != "none"
        return sorted_batches(
            contexts, questions, EVALUATION_TOKENS, EVALUATION_PAIRS, has_self_attention
        )

    def compute(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Logits of start and end, (B, T + 1) each, with the null token first."""
        if self.windows is None:
            start, end = self.model(self.resident.batch(rows))
            return start, end
        return self._joined(self.windows, rows)

    def _joined(self, windows: Windows, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Logits of start and end, joined from overlapping windows.

        Each token's logits come from the window in which it is closest to the middle. The logits of
        no answer come from the window that finds it least likely, because an answer in one window
        is enough.

        A span across a border has its start in one window and its end in the next. Both windows
        contain the whole span if it is at most half as long as their overlap.
        """
        logits = torch.full(
            (2, len(rows), 1 + int(self.lengths[rows].max())), MASKED, dtype=torch.float64
        )
        logits[:, :, 0] = torch.inf
        window_rows = windows.windows_of(rows)
        position_of = {int(row): i for i, row in enumerate(rows)}
        lengths = windows.examples.context_lengths[window_rows]
        for chosen in self._bounded(lengths, self.questions[window_rows]):
            batch = self.resident.batch(window_rows[chosen])
            window_logits = torch.stack(self.model(batch)).double().cpu()
            for i, window in enumerate(window_rows[chosen].tolist()):
                joined = logits[:, position_of[int(windows.example_of[window])]]
                start, end, shift = (
                    int(numbers[window])
                    for numbers in (windows.core_start, windows.core_end, windows.first)
                )
                core = slice(1 + start - shift, 1 + end - shift)
                joined[:, 1 + start : 1 + end] = window_logits[:, i, core]
                if window_logits[:, i, 0].sum() < joined[:, 0].sum():
                    joined[:, 0] = window_logits[:, i, 0]
        return logits[0], logits[1]
