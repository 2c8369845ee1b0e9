"""The best span, compared with an exhaustive search."""

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.modules.layers import MASKED
from models.span_decoding import (
    Predictions,
    argmax_threshold,
    best_spans,
    top_spans,
)

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


class Distribution(NamedTuple):
    """Log-probabilities, which have a total probability of 1."""

    spans: list[Span]
    no_answer: float


def exhaustive(
    row: list[tuple[float, float]], max_tokens: int, temperature: float = 1.0
) -> Distribution:
    """All spans of at most `max_tokens` real tokens, so without position 0, and no answer."""
    pairs = {(0, 0)} | {
        (i, j) for i in range(1, len(row)) for j in range(i, len(row)) if j - i < max_tokens
    }
    logits = {(i, j): (row[i][0] + row[j][1]) / temperature for i, j in pairs}
    total = math.log(sum(map(math.exp, logits.values())))
    no_answer = logits.pop((0, 0)) - total
    return Distribution([Span(i, j, logits[i, j] - total) for i, j in sorted(logits)], no_answer)


def padded(rows: list[list[tuple[float, float]]]) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    full = [row + [(MASKED, MASKED)] * (width - len(row)) for row in rows]
    logits = torch.tensor(full, dtype=torch.float64)
    return logits[:, :, 0], logits[:, :, 1]


@settings(max_examples=200)
@given(
    rows=st.lists(LOGITS, min_size=1, max_size=4),
    max_tokens=st.integers(1, 12),
    temperature=st.sampled_from([0.25, 1.0, 4.0]),
)
def test_best_spans_match_exhaustive_search(
    rows: list[list[tuple[float, float]]], max_tokens: int, temperature: float
) -> None:
    actual = best_spans(*padded(rows), max_tokens, temperature)
    for row, first, last, score, no_answer in zip(rows, *map(Tensor.tolist, actual), strict=True):
        spans, expected_no_answer = exhaustive(row, max_tokens, temperature)
        best = max(span.score for span in spans)
        assert no_answer == pytest.approx(expected_no_answer, abs=1e-9)
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
    all_spans, no_answer = exhaustive(row, max_tokens)
    scores = {(s.first - 1, s.last - 1): s.score for s in all_spans}
    spans = list(zip(top.span_start.tolist(), top.span_end.tolist(), strict=True))
    assert len(set(spans)) == len(spans) == min(count, len(scores))
    assert top.span_score.tolist() == pytest.approx([scores[span] for span in spans], abs=1e-9)
    expected = sorted(scores.values(), reverse=True)[:count]
    assert top.span_score.tolist() == pytest.approx(expected, abs=1e-9)
    assert top.no_answer_score.tolist() == pytest.approx([no_answer] * len(spans), abs=1e-9)
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
    """The margin is 9 + 9 (no answer) minus 1 + 1 (best span); the normalizer cancels out."""
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


@settings(max_examples=100)
@given(rows=st.lists(LOGITS, min_size=1, max_size=4), temperature=st.floats(0.25, 4))
def test_temperature_changes_no_answer(
    rows: list[list[tuple[float, float]]], temperature: float
) -> None:
    logits = [logits.round(decimals=1) for logits in padded(rows)]
    plain, scaled = best_spans(*logits, 5), best_spans(*logits, 5, temperature)
    margins, scaled_margins = (own[3] - own[2] for own in (plain, scaled))
    assert (scaled_margins * temperature).tolist() == pytest.approx(margins.tolist(), abs=1e-9)
    assert (plain[0] == scaled[0]).all() and (plain[1] == scaled[1]).all()
