"""Ragged rows, batches, and the order of batches."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import IntArray
from models.batching import (
    CONTEXT_STEP,
    NULL,
    PADDING,
    QUESTION_STEP,
    Examples,
    Ragged,
    ResidentExamples,
    Types,
    make_batch,
    shuffled_batches,
    sorted_batches,
)
from models.configs.variant import TrainingConfig
from tests.factories.models import make_examples, make_types

ROWS = st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=6)


@given(rows=ROWS)
def test_ragged_round_trips_rows(rows: list[list[int]]) -> None:
    ragged = Ragged.from_rows(rows)
    assert len(ragged) == len(rows)
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert [ragged[i].tolist() for i in range(len(rows))] == rows


TYPES = Types(
    np.array([0, 1, 10, 11, 12, 1], dtype=np.int32),
    Ragged.from_rows([[], [1], [5, 6, 7], [8], [5] * 300, [9, 9]]),
)
EXAMPLES = Examples(
    contexts=Ragged.from_rows([[2, 3, 2], [4], [3, 5, 5, 2]]),
    questions=Ragged.from_rows([[3], [2, 4], [5], []]),
    context_of=np.array([2, 0, 1, 0]),
    span_start=np.array([1, 0, -1, -1]),
    span_end=np.array([3, 0, -1, -1]),
    impossible=np.array([False, False, True, False]),
)


def type_ids(types: Types, words: torch.Tensor, characters: torch.Tensor) -> list[int]:
    """The rows of `types` that correspond to a batch's distinct types."""
    characters_of_types = [[c for c in row if c] for row in characters.tolist()]
    known = [(int(w), types.characters[i].tolist()) for i, w in enumerate(types.words)]
    return [known.index(pair) for pair in zip(words.tolist(), characters_of_types, strict=True)]


def test_batch_matches_a_worked_example() -> None:
    batch = make_batch(EXAMPLES, TYPES, np.array([1, 2, 0]), max_characters=300)
    distinct = np.array(type_ids(TYPES, batch.type_words, batch.type_characters))
    assert sorted(distinct.tolist()) == [0, 1, 2, 3, 4, 5]
    assert distinct[PADDING] == PADDING
    assert batch.context.shape == (3, CONTEXT_STEP)
    assert not batch.context[:, 5:].any()
    assert distinct[batch.context[:, :5]].tolist() == [
        [NULL, 2, 3, 2, 0],
        [NULL, 4, 0, 0, 0],
        [NULL, 3, 5, 5, 2],
    ]
    assert batch.question.shape == (3, QUESTION_STEP)
    assert not batch.question[:, 3:].any()
    assert distinct[batch.question[:, :3]].tolist() == [[NULL, 2, 4], [NULL, 5, 0], [NULL, 3, 0]]
    assert batch.start.tolist() == [1, 0, 2]
    assert batch.end.tolist() == [1, 0, 4]
    assert batch.context.dtype == batch.start.dtype == torch.int64


def test_handles_missing_target_and_empty_question() -> None:
    batch = make_batch(EXAMPLES, TYPES, np.array([3]), max_characters=16)
    assert batch.question.shape == (1, QUESTION_STEP)
    assert batch.type_words[batch.question].tolist() == [[NULL] + [PADDING] * (QUESTION_STEP - 1)]
    assert (batch.start.tolist(), batch.end.tolist()) == ([-1], [-1])
    assert batch.type_characters.shape[1] == 3, "only as wide as the batch's own words"


def test_words_are_truncated_at_max_characters() -> None:
    batch = make_batch(EXAMPLES, TYPES, np.array([2]), max_characters=16)
    assert batch.type_characters.shape[1] == 16
    assert batch.type_characters.max(1).values.tolist() == [0, 1, 5, 9]
    assert [5] * 16 in batch.type_characters.tolist()


def test_first_token_target_is_not_the_null_token() -> None:
    possible = replace(EXAMPLES, span_start=np.zeros(4, int), span_end=np.zeros(4, int))
    batch = make_batch(possible, TYPES, np.arange(4), max_characters=16)
    assert batch.start.tolist() == batch.end.tolist() == [1, 1, 0, 1]


@given(lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=6))
def test_batch_decodes_to_its_examples(lengths: list[tuple[int, int]]) -> None:
    types = make_types()
    examples = make_examples([t for t, _ in lengths], [j for _, j in lengths])
    rows = np.arange(len(examples))
    batch = make_batch(examples, types, rows, max_characters=16)
    words = batch.type_words
    for i in rows:
        expected = [NULL, *types.words[examples.contexts[i]]]
        assert words[batch.context[i]].tolist()[: len(expected)] == expected
        assert (batch.context[i][len(expected) :] == PADDING).all()
        expected = [NULL, *types.words[examples.questions[i]]]
        assert words[batch.question[i]].tolist()[: len(expected)] == expected
        assert (batch.question[i][len(expected) :] == PADDING).all()
    assert len(words) == len(
        {NULL, PADDING}
        | set(examples.contexts.values.tolist())
        | set(examples.questions.values.tolist())
    )


def test_consecutive_batches_are_independent() -> None:
    """Types of an earlier batch leave no trace in the next one."""
    resident = ResidentExamples(EXAMPLES, TYPES, 16, torch.device("cpu"))
    for rows in ([1, 2, 0], [3], [2], [0, 1]):
        actual = resident.batch(np.array(rows))
        expected = make_batch(EXAMPLES, TYPES, np.array(rows), 16)
        for name in ("context", "question", "type_words", "type_characters", "start", "end"):
            assert torch.equal(getattr(actual, name), getattr(expected, name))


def test_trainable_skips_long_and_untargeted_rows() -> None:
    # Contexts of 4, 3, 1, 3 tokens, questions of 1, 2, 1, 0; the last one has no target.
    assert EXAMPLES.context_lengths.tolist() == [4, 3, 1, 3]
    for limits, rows in (((4, 2), [0, 1, 2]), ((3, 2), [1, 2]), ((4, 1), [0, 2]), ((2, 1), [2])):
        context, question = limits
        config = TrainingConfig(max_context_tokens=context, max_question_tokens=question)
        assert EXAMPLES.trainable(config).tolist() == rows


LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=60).map(np.array)


@given(lengths=LENGTHS, size=st.integers(1, 7), seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_shuffled_batches_cover_every_row_once(
    lengths: IntArray, size: int, seed: int, epoch: int
) -> None:
    batches = shuffled_batches(lengths, size, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // size)
    assert sum(len(batch) != size for batch in batches) <= 1


def as_lists(batches: list[IntArray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def test_shuffle_depends_only_on_seed_and_epoch() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, 200)
    first = as_lists(shuffled_batches(lengths, 8, seed=1, epoch=2))
    np.random.seed(5)
    torch.manual_seed(5)
    assert as_lists(shuffled_batches(lengths, 8, seed=1, epoch=2)) == first
    for seed, epoch in ((1, 3), (2, 2), (2, 1)):
        other = as_lists(shuffled_batches(lengths, 8, seed, epoch))
        assert other != first
        assert sorted(map(sorted, other)) != sorted(map(sorted, first)), "the same batches, moved"


def padding_ratio(lengths: IntArray, batches: list[IntArray]) -> float:
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    return 1 - float(lengths.sum()) / padded


def test_shuffled_batches_group_similar_lengths() -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(20, 400, 4000)
    order = random.permutation(len(lengths))
    at_random = [order[i : i + 64] for i in range(0, len(order), 64)]
    assert padding_ratio(lengths, at_random) > 0.4
    batches = shuffled_batches(lengths, 64, seed=0, epoch=0)
    assert padding_ratio(lengths, batches) < 0.05
    firsts = [int(lengths[batch].max()) for batch in batches]
    assert sum(a > b for a, b in pairwise(firsts)) > 20, "batches come in the order of length"


PAIRS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=60)


@given(
    lengths=PAIRS,
    budget=st.integers(1, 200),
    max_pairs=st.integers(1, 2000) | st.just(math.inf),
    self_attention=st.booleans(),
)
def test_sorted_batches_are_full_and_within_budget(
    lengths: list[tuple[int, int]], budget: int, max_pairs: float, self_attention: bool
) -> None:
    contexts, questions = np.array(lengths).T

    def too_large(rows: IntArray) -> bool:
        context, question = int(contexts[rows].max()) + 1, int(questions[rows].max()) + 1
        pairs = [context * question, context * context if self_attention else 0]
        return len(rows) * max(context, question) > budget or len(rows) * max(pairs) > max_pairs

    batches = list(sorted_batches(contexts, questions, budget, max_pairs, self_attention))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(contexts)))
    for batch in batches:
        assert len(batch) == 1 or not too_large(batch)
    # No batch had room for the first row of the next one.
    for batch, following in pairwise(batches):
        assert too_large(np.append(batch, following[0]))


@given(lengths=LENGTHS, budget=st.integers(1, 200), self_attention=st.booleans())
def test_short_questions_change_no_sorted_batch(
    lengths: IntArray, budget: int, self_attention: bool
) -> None:
    limits = (budget, 20 * budget, self_attention)  # questions of fewer than 20 tokens
    short = np.minimum(np.arange(len(lengths)) % 19, lengths)
    batches = as_lists(list(sorted_batches(lengths, short, *limits)))
    assert batches == as_lists(list(sorted_batches(lengths, 0 * lengths, *limits)))


def test_no_rows_give_no_batches() -> None:
    nothing = np.array([], dtype=np.int64)
    assert list(sorted_batches(nothing, nothing, 10)) == []
    assert shuffled_batches(nothing, 4, 0, 0) == []
