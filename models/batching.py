"""Ragged integer arrays, and the padded batches that are built from them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.arrays import IntArray
from models.configs.variant import TrainingConfig
from models.token_layers import TokenLayers

PADDING = 0
# Index 1 of types, words and characters: the unknown one. It is also the null token, which stands
# for "no answer".
NULL = 1

# Batches are padded to multiples of these widths, null token included. oneDNN compiles its kernels
# for each new shape, which costs more time than the padding.
CONTEXT_STEP, QUESTION_STEP = 16, 8

# Number of batches whose examples are sorted by length together: large enough that the contexts of
# a batch have nearly equal lengths, small enough that batches differ from epoch to epoch.
POOL_BATCHES = 64


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: row i is values[offsets[i]:offsets[i + 1]]."""

    values: IntArray  # (N,)
    offsets: IntArray  # (rows + 1,)

    @classmethod
    def from_rows(cls, rows: list[list[int]]) -> Self:
        """Ragged array of the given lists."""
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.array([v for row in rows for v in row], dtype=np.int32), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> IntArray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @cached_property
    def lengths(self) -> IntArray:
        """Length of each row: (rows,)"""
        return np.diff(self.offsets)

    def behind_null(self) -> "Ragged":
        """The rows, each behind the null token."""
        values = np.insert(self.values, self.offsets[:-1], NULL)
        return Ragged(values, self.offsets + np.arange(len(self.offsets)))


@dataclass(frozen=True)
class Types:
    """The distinct surface forms (types): the word index and the characters of each. Row 0 is
    padding, row 1 is NULL."""

    words: IntArray  # (types,)
    characters: Ragged


@dataclass(frozen=True)
class Examples:
    """Questions and their contexts, as type ids. Spans are inclusive token positions, -1 for
    none. With contextual vectors, also the layers of their tokens."""

    contexts: Ragged
    questions: Ragged
    context_of: IntArray  # (n,) row of `contexts`
    span_start: IntArray  # (n,)
    span_end: IntArray  # (n,)
    impossible: npt.NDArray[np.bool_]  # (n,)
    context_layers: TokenLayers | None = None
    question_layers: TokenLayers | None = None

    def __len__(self) -> int:
        return len(self.context_of)

    @property
    def context_lengths(self) -> IntArray:
        """(n,) tokens of each example's context."""
        return self.contexts.lengths[self.context_of]

    @property
    def has_target(self) -> npt.NDArray[np.bool_]:
        """Whether each example has an aligned answer span or is marked as impossible: (n,)."""
        return (self.span_start >= 0) | self.impossible

    def trainable(self, config: TrainingConfig) -> IntArray:
        """Rows that can be trained on: they have a target, and neither the context nor the question
        exceeds its limit in tokens.

        Raises:
            ValueError: no row can be trained on.
        """
        fits = self.context_lengths <= config.max_context_tokens
        fits &= self.questions.lengths <= config.max_question_tokens
        rows = np.flatnonzero(self.has_target & fits)
        if len(rows) == 0:
            raise ValueError(
                "No trainable questions: none has an aligned answer in a context of at most "
                f"{config.max_context_tokens} tokens (max_context_tokens) and is at most "
                f"{config.max_question_tokens} tokens long (max_question_tokens). Raise these "
                "limits, or set window_stride to read longer contexts in windows."
            )
        return rows


@dataclass(frozen=True)
class Batch:
    """B padded examples. Position 0 of contexts and questions is the null token; targets count
    from it.

    `context` and `question` index the batch's own U distinct types, so that characters are encoded
    once per distinct type. Row 0 of the types is padding.
    """

    context: Tensor  # (B, T) int64
    question: Tensor  # (B, J) int64
    type_words: Tensor  # (U,) int64
    type_characters: Tensor  # (U, C) int32 or int64
    start: Tensor  # (B,) int64; 0 = no answer, -1 = no target
    end: Tensor  # (B,) int64
    context_layers: Tensor | None = None  # (B, T, layers, size), zeros at null and padding
    question_layers: Tensor | None = None  # (B, J, layers, size)


def target_positions(positions: IntArray, impossible: npt.NDArray[np.bool_]) -> Tensor:
    """Batch positions of token positions: one higher for the null token, 0 for no answer."""
    shifted = np.where(positions >= 0, positions + 1, -1)
    return torch.from_numpy(np.where(impossible, 0, shifted).astype(np.int64))


def padded_width(lengths: IntArray, step: int) -> int:
    """Width of a padded batch: the longest row and the null token, rounded up to a multiple of
    `step`."""
    return -(-(int(lengths.max()) + 1) // step) * step


def _look_up(values: Tensor, indices: Tensor) -> Tensor:
    """values[indices] for a vector of values, several times as fast on CPUs."""
    return values.index_select(0, indices.flatten()).view(indices.shape)


class _RaggedTensor:
    """Ragged rows whose values are on a device, followed by one padding value for all positions
    past a row's end."""

    def __init__(self, ragged: Ragged, device: torch.device) -> None:
        self.offsets = ragged.offsets
        values = np.append(ragged.values, ragged.values.dtype.type(PADDING))
        self.values = torch.from_numpy(values).to(device)

    def bounds(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The positions of the rows' first values, and those after their last ones: (n,) each."""
        return self.offsets[rows], self.offsets[rows + 1]

    def padded(self, bounds: Sequence[Tensor], width: int) -> Tensor:
        """Rows with these bounds, (n,) each, as (n, width), padded with zeros at the end."""
        first, end = bounds
        positions = first.unsqueeze(1) + torch.arange(width, device=first.device)
        positions.masked_fill_(positions >= end.unsqueeze(1), len(self.values) - 1)
        return _look_up(self.values, positions)


class ResidentExamples:
    """Examples and their types on a device, where padded batches are gathered.

    The host keeps a copy and determines the bounds of the rows, the widths and the distinct types
    of a batch. Only these are sent to the device, and no transfer blocks the host.
    """

    def __init__(
        self, examples: Examples, types: Types, max_characters: int, device: torch.device
    ) -> None:
        self.examples, self.words, self.device = examples, types.words, device
        self.contexts = _RaggedTensor(examples.contexts.behind_null(), device)
        self.questions = _RaggedTensor(examples.questions.behind_null(), device)
        self.characters = _RaggedTensor(types.characters, device)
        self.start = target_positions(examples.span_start, examples.impossible).numpy()
        self.end = target_positions(examples.span_end, examples.impossible).numpy()
        # Row of each type in the latest batch
        self.local = torch.zeros(len(types.words), dtype=torch.int64, device=device)
        self._character_lengths = np.minimum(types.characters.lengths, max_characters)
        self._is_used = np.zeros(len(types.words), dtype=bool)

    def batch(self, rows: IntArray) -> Batch:
        """Batch of the given examples, padded to the longest of them."""
        context_rows = self.examples.context_of[rows]
        distinct = self._distinct_types(rows, context_rows)
        width = int(self._character_lengths[distinct].max())
        types, words, *characters = self._send(
            [distinct, self.words[distinct], *self.characters.bounds(distinct)]
        )
        start, end, *bounds = self._send(
            [
                self.start[rows],
                self.end[rows],
                *self.contexts.bounds(context_rows),
                *self.questions.bounds(rows),
            ]
        )
        self.local[types] = torch.arange(len(distinct), device=self.device)
        context_width = padded_width(self.examples.contexts.lengths[context_rows], CONTEXT_STEP)
        question_width = padded_width(self.examples.questions.lengths[rows], QUESTION_STEP)
        return Batch(
            context=_look_up(self.local, self.contexts.padded(bounds[:2], context_width)),
            question=_look_up(self.local, self.questions.padded(bounds[2:], question_width)),
            type_words=words,
            type_characters=self.characters.padded(characters, width),
            start=start,
            end=end,
            context_layers=self._layers(
                self.examples.context_layers,
                context_rows,
                self.examples.contexts.lengths[context_rows],
                context_width,
            ),
            question_layers=self._layers(
                self.examples.question_layers,
                rows,
                self.examples.questions.lengths[rows],
                question_width,
            ),
        )

    def _layers(
        self, layers: TokenLayers | None, rows: IntArray, lengths: IntArray, width: int
    ) -> Tensor | None:
        """The layers of the rows' tokens, which stay on the host because they are large."""
        if layers is None:
            return None
        return self._to_device(layers.padded(rows, lengths, width))

    def _distinct_types(self, rows: IntArray, contexts: IntArray) -> IntArray:
        """Sorted types that occur in the examples, with padding and the null token."""
        texts = [self.examples.contexts[row] for row in contexts]
        texts += [self.examples.questions[row] for row in rows]
        self._is_used[np.concatenate([[PADDING, NULL], *texts])] = True
        distinct = np.flatnonzero(self._is_used)
        self._is_used[distinct] = False
        return distinct

    def _send(self, arrays: list[IntArray]) -> tuple[Tensor, ...]:
        """Arrays of one length as int64 tensors on the device, by one transfer."""
        together = np.stack(arrays).astype(np.int64)
        return self._to_device(torch.from_numpy(together)).unbind()

    def _to_device(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()  # a copy from unpinned memory blocks the host
        return tensor.to(self.device, non_blocking=True)


def make_batch(examples: Examples, types: Types, rows: IntArray, max_characters: int) -> Batch:
    """Batch of the given examples in the host's memory, padded to the longest of them."""
    return ResidentExamples(examples, types, max_characters, torch.device("cpu")).batch(rows)


def shuffled_batches(
    lengths: IntArray, batch_size: int, seed: int, epoch: int
) -> list[npt.NDArray[np.intp]]:
    """One epoch's batches of positions in `lengths`: shuffled, with similar lengths in each batch.

    The order depends only on the seed and the epoch, so a resumed run and a run with another number
    of workers see the same batches.
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


def sorted_batches(
    contexts: IntArray,
    questions: IntArray,
    max_tokens: int,
    max_pairs: float = math.inf,
    self_attention: bool = False,
) -> Iterator[npt.NDArray[np.intp]]:
    """Yield batches that cover every example once, in ascending order of length: that of the
    context or of the question, whichever is longer.

    `contexts` and `questions` are their lengths, (n,). A padded batch, null tokens included, has at
    most `max_tokens` tokens in its contexts, and as many in its questions. It has at most
    `max_pairs` pairs of a context token and a question token of the same example; with
    `self_attention`, also of two context tokens. An example that exceeds a limit alone is its own
    batch.
    """

    def fit(rows: npt.NDArray[np.intp]) -> bool:
        context, question = 1 + int(contexts[rows].max()), 1 + int(questions[rows].max())
        longest = max(context, question)
        pairs = context * (longest if self_attention else question)
        return len(rows) * longest <= max_tokens and len(rows) * pairs <= max_pairs

    order = np.argsort(np.maximum(contexts, questions), kind="stable")
    first = 0
    for i in range(1, len(order) + 1):
        if i == len(order) or not fit(order[first : i + 1]):
            yield order[first:i]
            first = i
