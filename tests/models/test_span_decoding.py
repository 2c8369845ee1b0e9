"""The best span, compared with an exhaustive search."""

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.modules.layers import MASKED
from models.span_decoding import Predictions, argmax_threshold, best_spans, top_spans

# Few distinct values, so that ties are common.
LOGITS = st.lists(
    st.tuples(st.sampled_from([-2.0, 0.0, 1.0, 1.5]), st.sampled_from([-2.0, 0.0, 1.0, 1.5])),
    min_size=2,
    max_size=9,
)


class Span(NamedTuple):
    first: int
    last: int
    score: float


def log_probabilities(logits: list[float]) -> list[float]:
    return torch.log_softmax(torch.tensor(logits, dtype=torch.float64), 0).tolist()


def all_spans(row: list[tuple[float, float]], max_tokens: int) -> list[Span]:
    """All spans of at most `max_tokens` real tokens, so without position 0."""
    start = log_probabilities([s for s, _ in row])
    end = log_probabilities([e for _, e in row])
    return [
        Span(i, j, start[i] + end[j])
        for i in range(1, len(row))
        for j in range(i, len(row))
        if j - i < max_tokens
    ]


def null_score(row: list[tuple[float, float]]) -> float:
    starts, ends = zip(*row, strict=True)
    return log_probabilities(list(starts))[0] + log_probabilities(list(ends))[0]


def padded(rows: list[list[tuple[float, float]]]) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    full = [row + [(MASKED, MASKED)] * (width - len(row)) for row in rows]
    logits = torch.tensor(full, dtype=torch.float64)
    return logits[:, :, 0], logits[:, :, 1]


@settings(max_examples=200)
@given(
    rows=st.lists(LOGITS, min_size=1, max_size=4),
    max_tokens=st.integers(1, 12),
)
def test_best_spans_match_exhaustive_search(
    rows: list[list[tuple[float, float]]], max_tokens: int
) -> None:
    actual = best_spans(*padded(rows), max_tokens)
    for row, first, last, score, no_answer in zip(rows, *map(Tensor.tolist, actual), strict=True):
        spans = all_spans(row, max_tokens)
        best = max(span.score for span in spans)
        assert no_answer == pytest.approx(null_score(row), abs=1e-9)
        assert score == pytest.approx(best, abs=1e-9)
        # The returned span is one of the allowed ones, and it has the returned score.
        (own,) = [span.score for span in spans if (span.first, span.last) == (first, last)]
        assert own == pytest.approx(best, abs=1e-9)


@settings(max_examples=200)
@given(
    row=LOGITS,
    masked=st.integers(0, 3),
    max_tokens=st.integers(1, 12),
    count=st.integers(1, 60),
)
def test_top_spans_match_exhaustive_search(
    row: list[tuple[float, float]], masked: int, max_tokens: int, count: int
) -> None:
    starts, ends = padded([row, [(0.0, 0.0)] * (len(row) + masked)])
    top = top_spans(starts[0], ends[0], max_tokens, count)
    scores = {(s.first - 1, s.last - 1): s.score for s in all_spans(row, max_tokens)}
    spans = list(zip(top.span_start.tolist(), top.span_end.tolist(), strict=True))
    assert len(set(spans)) == len(spans) == min(count, len(scores))
    assert top.span_score.tolist() == pytest.approx([scores[span] for span in spans], abs=1e-9)
    expected = sorted(scores.values(), reverse=True)[:count]
    assert top.span_score.tolist() == pytest.approx(expected, abs=1e-9)
    assert top.no_answer_score.tolist() == pytest.approx([null_score(row)] * len(spans), abs=1e-9)
    best = predicted(row, max_tokens)
    assert spans[0] == (best.span_start[0], best.span_end[0]), "the same one of tied spans"


def test_memory_does_not_grow_with_the_token_limit() -> None:
    starts, ends = padded([[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]])
    first, last, *_ = best_spans(starts, ends, 10**12)
    assert (first.item(), last.item()) == (1, 2)
    assert len(top_spans(starts[0], ends[0], 10**12, 9).span_start) == 3


def test_context_without_tokens_has_no_top_spans() -> None:
    logits = torch.tensor([0.3, MASKED], dtype=torch.float64)
    assert len(top_spans(logits, logits, 3, 5).span_start) == 0


def predicted(logits: list[tuple[float, float]], max_tokens: int = 3) -> Predictions:
    """Predictions for one row of logits; their positions do not count the null token."""
    first, last, score, no_answer = best_spans(*padded([logits]), max_tokens)
    return Predictions(*(part.numpy() for part in (first - 1, last - 1, score, no_answer)))


def decode(predictions: Predictions, threshold: float) -> tuple[int, int, float]:
    answers = predictions.answers(threshold)
    return int(answers.span_start[0]), int(answers.span_end[0]), float(answers.score[0])


def test_no_answer_is_predicted_only_if_allowed() -> None:
    actual = predicted([(9.0, 9.0), (0.0, 0.0), (1.0, 1.0)])
    assert decode(actual, argmax_threshold(True)) == (-1, -1, actual.no_answer_score[0])
    assert decode(actual, argmax_threshold(False)) == (1, 1, actual.span_score[0])
    assert actual.span_score[0] < actual.no_answer_score[0]


def test_threshold_applies_to_the_logit_difference() -> None:
    """The margin is 9 + 9 (no answer) minus 1 + 1 (best span); the normalizers cancel out."""
    actual = predicted([(9.0, 9.0), (0.0, 0.0), (1.0, 1.0)])
    assert actual.margin == pytest.approx([16])
    assert decode(actual, 15.9)[:2] == (-1, -1)
    assert decode(actual, 16.1)[:2] == (1, 1)


def test_no_answer_wins_a_tie() -> None:
    assert decode(predicted([(1.0, 1.0), (1.0, 1.0)]), 0.0)[:2] == (-1, -1)


def test_float32_logits_are_not_rounded() -> None:
    """Differences of 1e-6 between scores near -20 vanish in single precision."""
    start = torch.zeros(1, 500)
    end = torch.zeros(1, 500)
    start[0, 0] = end[0, 0] = 20.0
    start[0, 7] = 1e-6
    first, last, *_ = best_spans(start, end, 1)
    assert (first.item(), last.item()) == (7, 7)


@pytest.mark.parametrize("threshold", [-math.inf, 0.0, math.inf])
@pytest.mark.parametrize("width", [1, 4])
def test_empty_context_gets_no_answer(width: int, threshold: float) -> None:
    """The context has only the null token, alone in its batch or beside longer contexts."""
    logits = [(0.3, 0.3), *[(MASKED, MASKED)] * (width - 1)]
    assert decode(predicted(logits, 15), threshold) == (-1, -1, pytest.approx(0.0))
