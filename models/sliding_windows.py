"""Contexts longer than a model reads at once, as overlapping windows.

Each window is an example of its own. A context's logits are joined from the raw logits of its
windows, because softmax values of different windows are not comparable.
Source: Clark & Gardner 2018, section 3; Devlin et al. 2019 for the overlap.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.arrays import IntArray
from models.batching import Examples, Ragged
from models.configs.variant import TrainingConfig, Window


@dataclass(frozen=True)
class Windows:
    """n examples cut into w windows, in order; a context that fits has a single window."""

    examples: Examples  # the windows; those that do not contain the answer have no span
    example_of: IntArray  # (w,) example that each window is cut from
    first: IntArray  # (w,) context token that the window begins with
    core_start: IntArray  # (w,) begin and end of the window's own part of the context:
    core_end: IntArray  # a token belongs to the window in which it is closest to the middle
    begin: IntArray  # (n + 1,) index of each example's first window

    def windows_of(self, rows: IntArray) -> IntArray:
        """All windows of the given examples."""
        return np.concatenate([np.arange(self.begin[row], self.begin[row + 1]) for row in rows])

    def sampled(self, rows: IntArray, seed: int, epoch: int) -> IntArray:
        """Rows of the given windows that an epoch trains on: all windows that contain an answer,
        and per example one of the others, drawn anew in each epoch."""
        holds = self.examples.span_start[rows] >= 0
        others = np.random.default_rng([seed, epoch]).permutation(rows[~holds])
        _, drawn = np.unique(self.example_of[others], return_index=True)
        return np.sort(np.append(rows[holds], others[drawn]))


def select_for_epoch(
    examples: Examples, config: TrainingConfig, epoch: int = 0
) -> tuple[Examples, IntArray]:
    """Examples, or their windows if configured, and those of their rows that an epoch trains on. A
    row occurs several times if `no_answer_share` is above the share in the data.

    Raises:
        ValueError: no row can be trained on, or `no_answer_share` is set and all rows or none have
            an answer.
    """
    if config.window is None:
        rows = examples.trainable(config)
    else:
        windows = cut(examples, config.window)
        examples = windows.examples
        rows = windows.sampled(examples.trainable(config), config.seed, epoch)
    if config.no_answer_share is not None:
        rows = _with_no_answer_share(examples, rows, config.no_answer_share, [config.seed, epoch])
    return examples, rows


def _with_no_answer_share(
    examples: Examples, rows: IntArray, share: float, seed: list[int]
) -> IntArray:
    """As many rows, of which a share has no answer. Within each of the two kinds, the numbers of
    times that any two rows occur differ by at most one."""
    impossible = examples.impossible[rows]
    if impossible.all() or not impossible.any():
        raise ValueError(
            f"no_answer_share is {share:g}, but {'all' if impossible.any() else 'none'} of the "
            "trainable questions are unanswerable. Leave no_answer_share empty, or add questions "
            "of the other kind."
        )
    count = round(share * len(rows))
    random = np.random.default_rng([*seed, 1])  # not the generator of the windows or the batches
    kinds = ((rows[~impossible], len(rows) - count), (rows[impossible], count))
    return np.sort(np.concatenate([_spread(kind, size, random) for kind, size in kinds]))


def _spread(rows: IntArray, count: int, random: np.random.Generator) -> IntArray:
    """`count` of the rows: each of them equally often, and once more for a random selection."""
    times, rest = divmod(count, len(rows))
    return np.concatenate([np.tile(rows, times), random.permutation(rows)[:rest]])


def count_trainable(examples: Examples, config: TrainingConfig) -> int:
    """Number of examples that training uses. The others have no target, or none within a window, or
    exceed the token limits.

    Raises:
        ValueError: no example can be trained on.
    """
    if config.window is None:
        return len(examples.trainable(config))
    windows = cut(examples, config.window)
    return len(np.unique(windows.example_of[windows.examples.trainable(config)]))


def cut(examples: Examples, window: Window) -> Windows:
    """Windows of `window.tokens` tokens that begin `window.stride` tokens apart; the last window of
    a context ends where the context ends. They are copies, in total `tokens` / `stride` times as
    large as the contexts."""
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
    example_of = np.repeat(np.arange(len(examples)), own)
    row = (np.cumsum(counts) - counts)[examples.context_of][example_of] + _within(own)
    questions = examples.questions
    start, end, impossible = _targets(examples, example_of, first[row], size[row])
    context_layers, question_layers = examples.context_layers, examples.question_layers
    return Windows(
        Examples(
            contexts=contexts,
            questions=_pieces(
                questions, questions.offsets[example_of], questions.lengths[example_of]
            ),
            context_of=row,
            span_start=start,
            span_end=end,
            impossible=impossible,
            context_layers=context_layers and context_layers.parts(context, first),
            question_layers=question_layers and question_layers.parts(example_of),
        ),
        example_of=example_of,
        first=first[row],
        core_start=core_start[row],
        core_end=core_end[row],
        begin=np.append(0, np.cumsum(own)),
    )


def _within(counts: IntArray) -> IntArray:
    """0, 1, … within each of several runs of the given lengths: (sum of counts,)"""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _pieces(ragged: Ragged, first: IntArray, lengths: IntArray) -> Ragged:
    """Ragged rows that begin at the given positions in `ragged.values`; they may overlap."""
    positions = np.repeat(first, lengths) + _within(lengths)
    return Ragged(ragged.values[positions], np.append(0, np.cumsum(lengths)))


def _cores(context: IntArray, first: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """Begin and end of each window's own part. Borders lie halfway through the overlaps; the first
    and the last window of a context reach its ends."""
    start, end = first.copy(), first + size
    neighbours = np.flatnonzero(context[1:] == context[:-1])
    border = (first[neighbours + 1] + first[neighbours] + size[neighbours]) // 2
    end[neighbours] = start[neighbours + 1] = border
    return start, end


def _targets(
    examples: Examples, example_of: IntArray, first: IntArray, size: IntArray
) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Span and impossibility of each window. If no window contains the whole answer, no window of
    the example has a target, because "no answer" would be wrong."""
    start = examples.span_start[example_of] - first
    end = examples.span_end[example_of] - first
    answered = examples.span_start[example_of] >= 0
    holds = answered & (start >= 0) & (end < size)
    is_held = np.bincount(example_of, holds, minlength=len(examples)) > 0
    impossible = examples.impossible[example_of] | (answered & ~holds & is_held[example_of])
    return np.where(holds, start, -1), np.where(holds, end, -1), impossible
