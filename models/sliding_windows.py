"""Contexts longer than a model reads at once, as overlapping windows.

Each window is an example of its own. What the model says of a context's tokens is put together
again from its logits as they are: softmax values of different windows could not be compared.
Source: Clark & Gardner 2018, section 3; Devlin et al. 2019 for the overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.batching import Examples, IntArray, Ragged
from models.configs.variant import TrainingConfig, Window


@dataclass(frozen=True)
class Windows:
    """n examples cut into w windows, in their order; a context that fits is its only window."""

    examples: Examples  # the windows; those that lack the answer have none
    of: IntArray  # (w,) the example that each is cut from
    first: IntArray  # (w,) the token of the context that it begins with
    core_start: IntArray  # (w,) where its own part of the context begins, and where it ends:
    core_end: IntArray  # a token belongs to the window in whose middle it lies most
    begin: IntArray  # (n + 1,) where each example's windows begin

    def of_examples(self, rows: IntArray) -> IntArray:
        """All windows of some examples."""
        return np.concatenate([np.arange(self.begin[row], self.begin[row + 1]) for row in rows])

    def sampled(self, rows: IntArray, seed: int, epoch: int) -> IntArray:
        """Those of some windows that an epoch trains on: all that hold an answer, and of each
        example one of the others, drawn anew in each epoch."""
        holds = self.examples.span_start[rows] >= 0
        others = np.random.default_rng([seed, epoch]).permutation(rows[~holds])
        _, drawn = np.unique(self.of[others], return_index=True)
        return np.sort(np.append(rows[holds], others[drawn]))


def to_train_on(
    examples: Examples, config: TrainingConfig, epoch: int = 0
) -> tuple[Examples, IntArray]:
    """Examples, and those of their rows that an epoch trains on: as they are, or as windows.

    Raises:
        ValueError: there are none.
    """
    limits = config.max_context_tokens, config.max_question_tokens
    if config.window is None:
        return examples, examples.trainable(*limits)
    windows = cut(examples, config.window)
    rows = windows.examples.trainable(*limits)
    return windows.examples, windows.sampled(rows, config.seed, epoch)


def trained_questions(examples: Examples, config: TrainingConfig) -> int:
    """How many of the examples the epochs train on: the others have no target, or none in a window,
    or are longer than the limits.

    Raises:
        ValueError: there are none.
    """
    limits = config.max_context_tokens, config.max_question_tokens
    if config.window is None:
        return len(examples.trainable(*limits))
    windows = cut(examples, config.window)
    return len(np.unique(windows.of[windows.examples.trainable(*limits)]))


def cut(examples: Examples, window: Window) -> Windows:
    """Windows of `window.tokens` tokens that begin `window.stride` apart, the last one of a context
    at its end. They are copies, of `tokens` / `stride` times the contexts' size in all."""
    lengths = examples.contexts.lengths
    counts = 1 + np.maximum(0, -(-(lengths - window.tokens) // window.stride))
    context = np.repeat(np.arange(len(lengths)), counts)
    first = np.minimum(
        _within(counts) * window.stride, np.maximum(lengths - window.tokens, 0)[context]
    )
    size = np.minimum(lengths, window.tokens)[context]
    contexts = _pieces(examples.contexts, examples.contexts.offsets[context] + first, size)
    core_start, core_end = _cores(context, first, size)

    own = counts[examples.context_of]  # windows of each example
    of = np.repeat(np.arange(len(examples)), own)
    row = (np.cumsum(counts) - counts)[examples.context_of][of] + _within(own)
    questions = examples.questions
    start, end, impossible = _targets(examples, of, first[row], size[row])
    return Windows(
        Examples(
            contexts=contexts,
            questions=_pieces(questions, questions.offsets[of], questions.lengths[of]),
            context_of=row,
            span_start=start,
            span_end=end,
            impossible=impossible,
        ),
        of=of,
        first=first[row],
        core_start=core_start[row],
        core_end=core_end[row],
        begin=np.append(0, np.cumsum(own)),
    )


def _within(counts: IntArray) -> IntArray:
    """0, 1, … for each of some runs: (sum of counts,)"""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _pieces(ragged: Ragged, first: IntArray, lengths: IntArray) -> Ragged:
    """Rows of their own that begin at some values of others, overlapping as they may."""
    places = np.repeat(first, lengths) + _within(lengths)
    return Ragged(ragged.values[places], np.append(0, np.cumsum(lengths)))


def _cores(context: IntArray, first: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """Borders halfway through the overlaps; a context's first and last window reach its ends."""
    start, end = first.copy(), first + size
    neighbours = np.flatnonzero(context[1:] == context[:-1])
    border = (first[neighbours + 1] + first[neighbours] + size[neighbours]) // 2
    end[neighbours] = start[neighbours + 1] = border
    return start, end


def _targets(
    examples: Examples, of: IntArray, first: IntArray, size: IntArray
) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Span and impossibility of each window. Where no window holds the whole answer none has a
    target, as it would be wrong that there is none."""
    start, end = examples.span_start[of] - first, examples.span_end[of] - first
    answered = examples.span_start[of] >= 0
    holds = answered & (start >= 0) & (end < size)
    is_held = np.bincount(of, holds, minlength=len(examples)) > 0
    impossible = examples.impossible[of] | (answered & ~holds & is_held[of])
    return np.where(holds, start, -1), np.where(holds, end, -1), impossible
