"""The small blocks, compared with PyTorch or with their formulas in plain loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from models.modules.layers import Dropout, Highway, VariationalDropout, masked_softmax
from tests.factories.blocks import (
    SEEDS,
    SIZES,
    assert_close,
    few,
    random_tensor,
)


@given(
    mask=st.lists(st.booleans(), min_size=1, max_size=6).filter(any),
    seed=SEEDS,
    scale=st.sampled_from([1.0, 300.0]),
)
def test_masked_softmax_matches_torch_softmax(mask: list[bool], seed: int, scale: float) -> None:
    logits = random_tensor(seed, len(mask)) * scale
    keep = torch.tensor(mask)
    actual = masked_softmax(logits, ~keep, 0)
    assert actual[~keep].tolist() == [0.0] * mask.count(False)
    assert_close(actual[keep], torch.softmax(logits[keep], 0))


@few
@given(size=SIZES, layers=st.integers(1, 3), seed=SEEDS)
def test_highway_matches_reference_loop(size: int, layers: int, seed: int) -> None:
    torch.manual_seed(seed)
    highway = Highway(size, layers).double()
    x = random_tensor(seed, 3, size)
    expected = x.tolist()
    for transform, gate in zip(highway.transforms, highway.gates, strict=True):
        for row, old in enumerate(expected):
            new = []
            for i in range(size):
                h = sum(transform.weight[i, k].item() * old[k] for k in range(size))
                g = sum(gate.weight[i, k].item() * old[k] for k in range(size))
                t = 1 / (1 + math.exp(-(g + gate.bias[i].item())))
                new.append(t * max(0.0, h + transform.bias[i].item()) + (1 - t) * old[i])
            expected[row] = new
    assert_close(highway(x), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 0.9])
def test_dropout_matches_its_rate_and_keeps_the_mean(rate: float) -> None:
    torch.manual_seed(0)
    out = Dropout(rate)(torch.ones(1000, 401))
    assert (out == 0).double().mean().item() == pytest.approx(rate, abs=1 / 256)
    assert out.double().mean().item() == pytest.approx(1, abs=0.02)
    assert len(out.unique()) == 2


def test_dropout_is_off_in_eval_mode_and_at_rate_0() -> None:
    x = torch.randn(3, 5)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_dropout_gradient_uses_the_forward_mask() -> None:
    x = torch.ones(50, 11, requires_grad=True)
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


@pytest.mark.parametrize("threshold", [1, 16, 128, 192])
def test_each_byte_of_a_random_draw_is_uniform(threshold: int) -> None:
    """Eight elements share a 64-bit draw, and each of them must be dropped at the same rate."""
    torch.manual_seed(1)
    draws = 100_000
    dropped = Dropout(threshold / 256)(torch.ones(draws, 8)) == 0
    expected = threshold / 256
    deviation = math.sqrt(expected * (1 - expected) / draws)
    rates = dropped.double().mean(0)
    assert (rates - expected).abs().max().item() < 5 * deviation


def test_dropout_mask_elements_are_independent() -> None:
    torch.manual_seed(2)
    dropped = (Dropout(0.5)(torch.ones(100_000, 8)) == 0).double()
    correlations = torch.corrcoef(dropped.T) - torch.eye(8)
    assert correlations.abs().max().item() < 5 / math.sqrt(100_000)


def test_variational_dropout_shares_mask_across_tokens() -> None:
    torch.manual_seed(0)
    x = torch.rand(8, 20, 500) + 1
    dropout = VariationalDropout(0.3)
    out = dropout(x)
    dropped = out == 0
    assert (dropped == dropped[:, :1]).all()
    assert not torch.equal(dropped[0], dropped[1])
    assert dropped.double().mean().item() == pytest.approx(0.3, abs=0.02)
    torch.testing.assert_close(out, x * ~dropped / 0.7)
    assert torch.equal(dropout.eval()(x), x)


@pytest.mark.parametrize("layer", [Dropout(0.5), VariationalDropout(0.5)])
def test_dropout_keeps_the_dtype(layer: nn.Module) -> None:
    x = torch.ones(2, 3, 4, dtype=torch.bfloat16)
    assert layer.train()(x).dtype == torch.bfloat16
