"""Recurrent layers, compared with PyTorch's packed sequences."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.configs.variant import ModelConfig
from models.modules.rnn import (
    BidirectionalRNN,
    Encoder,
    reverse_sequences,
    run_even_lstm,
)
from tests.factories.blocks import (
    LENGTHS,
    SEEDS,
    SIZES,
    assert_close,
    few,
    make_mask,
    packed,
    random_tensor,
)

CELLS = st.sampled_from(["lstm", "gru"])


@few
@given(lengths=LENGTHS, extra=st.integers(0, 3), size=SIZES, hidden=SIZES, cell=CELLS, seed=SEEDS)
def test_recurrent_layers_match_packed_sequences(
    lengths: list[int], extra: int, size: int, hidden: int, cell: str, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = BidirectionalRNN(ModelConfig(hidden, recurrent=cell), size).double()
    mask = make_mask(lengths, extra)
    x = random_tensor(seed, *mask.real.shape, size)
    assert_close(layer(x, mask), packed([layer], x, lengths))


@few
@given(lengths=LENGTHS, layers=st.integers(1, 3), cell=CELLS, seed=SEEDS)
def test_encoder_matches_stacked_torch_layers(
    lengths: list[int], layers: int, cell: str, seed: int
) -> None:
    torch.manual_seed(seed)
    encoder = Encoder(ModelConfig(2, recurrent=cell), 3, layers).double().eval()
    mask = make_mask(lengths, 1)
    x = random_tensor(seed, *mask.real.shape, 3)
    assert_close(encoder(x, mask), packed(list(encoder.layers), x, lengths))


def test_lstm_run_with_an_even_size_is_the_same() -> None:
    torch.manual_seed(0)
    layer = torch.nn.LSTM(3, 5, batch_first=True).double()
    x = random_tensor(0, 2, 4, 3)
    gradients = []
    for run in (layer, partial(run_even_lstm, layer)):
        layer.zero_grad()
        outputs, (hidden, cell) = run(x)
        (outputs.square().sum() + hidden.sum() + cell.sum()).backward()
        gradients.append([outputs, hidden, cell, *(p.grad.clone() for p in layer.parameters())])
    for actual, expected in zip(*gradients, strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("size", [5, 6])
def test_autocast_runs_lstms_of_any_size(size: int) -> None:
    torch.manual_seed(0)
    layer = BidirectionalRNN(ModelConfig(size), 3)
    mask = make_mask([4, 2], extra=1)
    x = random_tensor(0, *mask.real.shape, 3).float()
    with torch.autocast("cpu", torch.bfloat16):
        outputs = layer(x, mask)
    torch.testing.assert_close(outputs.float(), layer(x, mask), rtol=0, atol=0.01)


@pytest.mark.parametrize(
    ("form", "dropped"),
    [
        ("outputs", [False, True, True]),
        ("inputs", [True, True, False]),
        ("variational", [True, True, True]),
    ],
)
def test_encoder_applies_dropout_where_expected(form: str, dropped: list[bool]) -> None:
    """Before the first layer, between the layers and after the last one; never twice."""
    torch.manual_seed(0)  # variational dropout draws as few as 400 numbers
    encoder = Encoder(ModelConfig(64, dropout=0.5, dropout_form=form), 100, 2)
    seen: list[Tensor] = []
    for layer in encoder.layers:
        layer.register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    seen.append(encoder(torch.rand(4, 50, 100) + 1, make_mask([50] * 4)))
    shares = [(x == 0).double().mean().item() for x in seen]
    assert shares == pytest.approx([0.5 * drops for drops in dropped], abs=0.06)


def test_reversal_passes_gradcheck() -> None:
    mask = make_mask([4, 1, 3], extra=1)
    x = random_tensor(0, 3, 5, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: reverse_sequences(x, mask.reversal), (x,))
