"""Ragged integer arrays, and the padded batches that are cut from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

IntArray = npt.NDArray[np.integer]

PADDING = 0
NULL = 1
"""Type, word and character 1: the unknown one, and the token that stands for "no answer"."""

POOL_BATCHES = 64
"""Batches' worth of examples that are sorted by length together: large enough that a batch's
contexts are nearly equally long, small enough that batches still differ from epoch to epoch."""


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: row i is values[offsets[i]:offsets[i + 1]]."""

    values: IntArray  # (N,)
    offsets: IntArray  # (rows + 1,)

    @classmethod
    def from_rows(cls, rows: list[list[int]]) -> Ragged:
        """Rows given as lists."""
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.array([v for row in rows for v in row], dtype=np.int32), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> IntArray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> IntArray:
        """(rows,)"""
        return np.diff(self.offsets)

    def padded(self, rows: IntArray, limit: int | None = None) -> IntArray:
        """The given rows as one array (len(rows), longest), zeros behind, cut at `limit`."""
        lengths = self.lengths[rows]
        if limit is not None:
            lengths = np.minimum(lengths, limit)
        width = int(lengths.max(initial=0))
        columns = np.arange(width)
        inside = columns < lengths[:, None]
        out = np.zeros((len(rows), width), dtype=np.int64)
        out[inside] = self.values[(self.offsets[rows][:, None] + columns)[inside]]
        return out


@dataclass(frozen=True)
class Types:
    """The distinct surface forms: each one's word and its characters. Row 0 pads, row 1 is NULL."""

    words: IntArray  # (types,)
    characters: Ragged


@dataclass(frozen=True)
class Examples:
    """Questions about contexts, as type ids. Spans are inclusive token positions, -1 for none."""

    contexts: Ragged
    questions: Ragged
    context_of: IntArray  # (n,) row of `contexts`
    span_start: IntArray  # (n,)
    span_end: IntArray  # (n,)
    impossible: npt.NDArray[np.bool_]  # (n,)

    def __len__(self) -> int:
        return len(self.context_of)

    @property
    def context_lengths(self) -> IntArray:
        """(n,) tokens of each example's context."""
        return self.contexts.lengths[self.context_of]

    def trainable(self, max_context: int, max_question: int) -> IntArray:
        """Rows that can be trained on: a target, and neither side longer than its limit.

        Raises:
            ValueError: there are none.
        """
        has_target = (self.span_start >= 0) | self.impossible
        fits = (self.context_lengths <= max_context) & (self.questions.lengths <= max_question)
        rows = np.flatnonzero(has_target & fits)
        if len(rows) == 0:
            raise ValueError(
                "No question can be trained on: none has an answer that was found, in a context of "
                f"at most {max_context} tokens (max_context_tokens), and is itself of at most "
                f"{max_question} (max_question_tokens)."
            )
        return rows


@dataclass(frozen=True)
class Batch:
    """B padded examples. Position 0 of both sides is the null token; targets count from it.

    `context` and `question` point into the batch's own U distinct types, so that characters
    are encoded once per distinct word. Row 0 of the types is padding.
    """

    context: Tensor  # (B, T) int64
    question: Tensor  # (B, J) int64
    type_words: Tensor  # (U,) int64
    type_characters: Tensor  # (U, C) int64
    start: Tensor  # (B,) int64; 0 = no answer, -1 = no target
    end: Tensor  # (B,) int64

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        moved = {f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)}
        return Batch(**moved)


def _with_null(tokens: IntArray) -> IntArray:
    """(B, N) -> (B, N + 1): the null token in front of every row."""
    return np.concatenate([np.full((len(tokens), 1), NULL), tokens], axis=1)


def _targets(positions: IntArray, impossible: npt.NDArray[np.bool_]) -> Tensor:
    """Token positions -> batch positions: one further for the null token, 0 for no answer."""
    shifted = np.where(positions >= 0, positions + 1, -1)
    return torch.from_numpy(np.where(impossible, 0, shifted).astype(np.int64))


def make_batch(examples: Examples, types: Types, rows: IntArray, max_characters: int) -> Batch:
    """Pad the given examples to the longest of them."""
    context = _with_null(examples.contexts.padded(examples.context_of[rows]))
    question = _with_null(examples.questions.padded(rows))
    ids = np.concatenate([[PADDING], context.ravel(), question.ravel()])
    distinct, local = np.unique(ids, return_inverse=True)
    local = local[1:]
    return Batch(
        context=torch.from_numpy(local[: context.size].reshape(context.shape)),
        question=torch.from_numpy(local[context.size :].reshape(question.shape)),
        type_words=torch.from_numpy(types.words[distinct].astype(np.int64)),
        type_characters=torch.from_numpy(types.characters.padded(distinct, max_characters)),
        start=_targets(examples.span_start[rows], examples.impossible[rows]),
        end=_targets(examples.span_end[rows], examples.impossible[rows]),
    )


def shuffled_batches(
    lengths: IntArray, batch_size: int, seed: int, epoch: int
) -> list[npt.NDArray[np.intp]]:
    """One epoch's batches of positions in `lengths`: shuffled, yet alike in length within a batch.

    The order depends on the seed and the epoch alone, so a resumed run and a run over another
    number of workers see the same batches.
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths))
    pool = batch_size * POOL_BATCHES
    batches = []
    for first in range(0, len(order), pool):
        chunk = order[first : first + pool]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        batches += [chunk[i : i + batch_size] for i in range(0, len(chunk), batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]


def sorted_batches(lengths: IntArray, max_tokens: int) -> Iterator[npt.NDArray[np.intp]]:
    """Every position once, by length, each batch padded to at most `max_tokens` tokens
    (a single longer example makes a batch of its own)."""
    order = np.argsort(lengths, kind="stable")
    first = 0
    for i in range(1, len(order) + 1):
        if i == len(order) or (i + 1 - first) * (lengths[order[i]] + 1) > max_tokens:
            yield order[first:i]
            first = i
