"""The output layers against the formula, written as loops or taken from PyTorch."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from models.layers import MASKED
from models.output import SpanOutput
from tests.models.checking import (
    LENGTHS,
    SEEDS,
    SIZES,
    assert_close,
    check_gradients,
    drawn,
    few,
    make_mask,
    packed,
)


@few
@given(lengths=LENGTHS, extra=st.integers(0, 2), size=SIZES, hidden=SIZES, seed=SEEDS)
def test_span_output(lengths: list[int], extra: int, size: int, hidden: int, seed: int) -> None:
    torch.manual_seed(seed)
    output = SpanOutput(size, hidden, dropout=0.5).double().eval()
    mask = make_mask(lengths, extra)
    g, m = drawn(seed, *mask.shape, size), drawn(seed + 1, *mask.shape, 2 * hidden)
    again = packed(list(output.encoder.layers), m, lengths)
    expected = torch.full((2, *mask.shape), MASKED, dtype=torch.float64)
    for b, length in enumerate(lengths):
        for t in range(length):
            expected[0, b, t] = output.start_attention(g[b, t]) + output.start_modeling(m[b, t])
            expected[1, b, t] = output.end_attention(g[b, t]) + output.end_modeling(again[b, t])
    assert_close(torch.stack(output(g, m, mask)), expected)


def test_span_output_gradients() -> None:
    mask = make_mask([3, 1], extra=1)
    check_gradients(
        SpanOutput(2, 2, dropout=0.0).double(), drawn(0, 2, 4, 2), drawn(1, 2, 4, 4), mask
    )
