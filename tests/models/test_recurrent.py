"""Recurrent layers against the formula, written as loops or taken from PyTorch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.recurrent import BiLSTM, Encoder, _reversed, reversal_index
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
@given(lengths=LENGTHS, extra=st.integers(0, 3), size=SIZES, hidden=SIZES, seed=SEEDS)
def test_bilstm_is_the_packed_one(
    lengths: list[int], extra: int, size: int, hidden: int, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = BiLSTM(size, hidden).double()
    mask = make_mask(lengths, extra)
    x = drawn(seed, *mask.shape, size)
    assert_close(layer(x, mask), packed([layer], x, lengths))


@few
@given(lengths=LENGTHS, layers=st.integers(1, 3), seed=SEEDS)
def test_encoder_is_a_stack(lengths: list[int], layers: int, seed: int) -> None:
    torch.manual_seed(seed)
    encoder = Encoder(3, 2, layers, dropout=0.5).double().eval()
    mask = make_mask(lengths, 1)
    x = drawn(seed, *mask.shape, 3)
    assert_close(encoder(x, mask), packed(list(encoder.layers), x, lengths))


def test_encoder_drops_behind_its_only_layer() -> None:
    """PyTorch's own LSTM ignores `dropout` on its last layer, and so on a single one."""
    encoder = Encoder(3, 64, 1, dropout=0.5)
    out = encoder(torch.randn(4, 50, 3), torch.ones(4, 50, dtype=torch.bool))
    assert (out == 0).double().mean().item() == pytest.approx(0.5, abs=0.03)


def test_encoder_drops_between_its_layers() -> None:
    encoder = Encoder(3, 64, 2, dropout=0.5)
    read: list[Tensor] = []
    encoder.layers[1].register_forward_pre_hook(lambda layer, inputs: read.append(inputs[0]))
    encoder(torch.randn(4, 50, 3), torch.ones(4, 50, dtype=torch.bool))
    assert (read[0] == 0).double().mean().item() == pytest.approx(0.5, abs=0.03)


@given(lengths=LENGTHS, extra=st.integers(0, 2))
def test_reversal_keeps_padding_in_place(lengths: list[int], extra: int) -> None:
    mask = make_mask(lengths, extra)
    x = torch.arange(mask.numel(), dtype=torch.float64).view(*mask.shape, 1)
    expected = []
    for row, length in zip(x.squeeze(2).tolist(), lengths, strict=True):
        expected.append(row[:length][::-1] + row[length:])
    found = _reversed(x, reversal_index(mask))
    assert found.squeeze(2).tolist() == expected


def test_reversal_and_bilstm_gradients() -> None:
    mask = make_mask([4, 1, 3], extra=1)
    x = drawn(0, 3, 5, 2).requires_grad_()
    index = reversal_index(mask)
    assert torch.autograd.gradcheck(lambda x: _reversed(x, index), (x,))
    check_gradients(BiLSTM(2, 2).double(), x.detach(), mask)
