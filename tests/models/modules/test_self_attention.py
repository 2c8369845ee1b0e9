"""Self-attention, compared with its formula in plain loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import models.modules.self_attention
from models.configs.variant import ModelConfig
from models.modules.self_attention import (
    Additive,
    Dot,
    Elementwise,
    ResidualSelfAttention,
    SelfMatching,
    additive_scores,
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
    softmax,
    trilinear,
)

KINDS: list[str] = ["additive", "dot", "elementwise"]


def make_matching(kind: str, size: int, hidden: int, seed: int) -> SelfMatching:
    torch.manual_seed(seed)
    return SelfMatching(ModelConfig(hidden, self_attention=kind), size).double().eval()


def similarity(layer: nn.Module, attending: Tensor, attended: Tensor) -> Tensor:
    """Reference s_tj of one pair of tokens."""
    if isinstance(layer, Elementwise):
        return sum(v * a * b for v, a, b in zip(layer.weight[0], attending, attended, strict=True))
    assert isinstance(layer, Additive | Dot)
    left, right = layer.of_attending.weight @ attending, layer.of_attended.weight @ attended
    if isinstance(layer, Dot):
        return sum(a * b for a, b in zip(left, right, strict=True))
    return sum(v * torch.tanh(a + b) for v, a, b in zip(layer.weight[0], left, right, strict=True))


def matched(layer: SelfMatching, p: Tensor) -> Tensor:
    """Reference [p_t; c_t] of one example without padding."""
    out = []
    for attending in p:
        weights = softmax([similarity(layer.similarity, attending, other) for other in p])
        c = sum(a * other for a, other in zip(weights, p, strict=True))
        out.append(torch.cat([attending, c]))
    return torch.stack(out)


@few
@given(
    lengths=LENGTHS,
    extra=st.integers(0, 2),
    kind=st.sampled_from(KINDS),
    size=SIZES,
    hidden=SIZES,
    seed=SEEDS,
)
def test_self_matching_matches_reference(
    lengths: list[int], extra: int, kind: str, size: int, hidden: int, seed: int
) -> None:
    layer = make_matching(kind, size, hidden, seed)
    mask = make_mask(lengths, extra)
    p = random_tensor(seed, *mask.real.shape, size).masked_fill(mask.padding[..., None], 9.0)
    actual = layer(p, mask)
    for b, length in enumerate(lengths):
        read = matched(layer, p[b, :length]).unsqueeze(0)
        assert_close(actual[b, :length], packed(list(layer.encoder.layers), read, [length])[0])


def naive(attending: Tensor, attended: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(attending.unsqueeze(2) + attended.unsqueeze(1)) @ weight


@pytest.mark.parametrize("chunk", [1, 7, 60, 200, 1 << 19])
@given(shape=st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5), SIZES), seed=SEEDS)
@few
def test_chunked_additive_scores_match_naive_ones(
    shape: tuple[int, int, int, int], seed: int, chunk: int
) -> None:
    """Values and gradients match, however few rows or examples fit in a chunk."""
    b, t, j, size = shape
    inputs = [
        x.requires_grad_()
        for x in (
            random_tensor(seed, b, t, size),
            random_tensor(seed + 1, b, j, size),
            random_tensor(seed + 2, size),
        )
    ]
    upstream_gradient = random_tensor(seed + 3, b, t, j)
    expected = naive(*inputs)
    expected_gradients = torch.autograd.grad(expected, inputs, upstream_gradient)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models.modules.self_attention, "CPU_CHUNK", chunk)
        actual = additive_scores(*inputs)
        actual_gradients = torch.autograd.grad(actual, inputs, upstream_gradient)
    assert_close(actual, expected)
    for gradient, expected_gradient in zip(actual_gradients, expected_gradients, strict=True):
        assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("scale", [0.1, 3.0, 12.0])
def test_additive_scores_are_accurate_in_float32(scale: float) -> None:
    """Within 1e-5 of the naive formula, even for inputs that saturate tanh."""
    inputs = [
        scale * random_tensor(0, 2, 30, 20),
        scale * random_tensor(1, 2, 30, 20),
        random_tensor(2, 20) / 20,
    ]
    expected = naive(*inputs)
    actual = additive_scores(*(x.float() for x in inputs))
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=1e-5)


def test_additive_scores_of_huge_inputs_stay_finite() -> None:
    x = torch.tensor([[[1e4, -1e4]]], requires_grad=True)
    y = torch.tensor([[[1e4, -1e4], [-1e4, 0.0]]], requires_grad=True)
    scores = additive_scores(x, y, torch.tensor([1.0, 2.0]))
    assert scores.tolist() == [[[-1.0, -2.0]]]
    gradients = torch.autograd.grad(scores.sum(), (x, y))
    assert all(gradient.isfinite().all() for gradient in gradients)


# Clark & Gardner's residual block


def make_residual(size: int, hidden: int, seed: int) -> ResidualSelfAttention:
    torch.manual_seed(seed)
    config = ModelConfig(hidden, recurrent="gru", self_attention="trilinear")
    layer = ResidualSelfAttention(config, size).double().eval()
    nn.init.normal_(layer.similarity.bias)
    return layer


def residual(layer: ResidualSelfAttention, attention: Tensor) -> Tensor:
    """Reference output of the block for one example without padding."""
    x = torch.relu(torch.stack([layer.reduction(g) for g in attention]))
    m = packed(list(layer.encoder.layers), x.unsqueeze(0), [len(x)])[0]
    s = trilinear(layer.similarity, m, m)
    out = []
    for t in range(len(x)):
        exponentials = [s[t][j].exp() for j in range(len(x))]
        others = [j for j in range(len(x)) if j != t]
        total = layer.nothing[0].exp() + sum(exponentials[j] for j in others)
        c = sum((exponentials[j] / total * m[j] for j in others), torch.zeros_like(m[t]))
        out.append(x[t] + torch.relu(layer.merging(torch.cat([c, m[t], c * m[t]]))))
    return torch.stack(out)


@few
@given(lengths=LENGTHS, extra=st.integers(0, 2), size=SIZES, hidden=SIZES, seed=SEEDS)
def test_residual_self_attention_matches_reference(
    lengths: list[int], extra: int, size: int, hidden: int, seed: int
) -> None:
    layer = make_residual(size, hidden, seed)
    mask = make_mask(lengths, extra)
    attention = random_tensor(seed, *mask.real.shape, size).masked_fill(
        mask.padding[..., None], 9.0
    )
    actual = layer(attention, mask)
    for b, length in enumerate(lengths):
        assert_close(actual[b, :length], residual(layer, attention[b, :length]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_additive_scores_on_gpu_match_the_cpu() -> None:
    inputs = [
        random_tensor(0, 3, 70, 40).float(),
        random_tensor(1, 3, 70, 40).float(),
        random_tensor(2, 40).float() / 40,
    ]
    expected = additive_scores(*inputs)
    actual = additive_scores(*(x.cuda() for x in inputs))
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=1e-5)


def test_autocast_does_not_change_additive_scores() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    weight = torch.randn(3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        scores = additive_scores(x, y, weight)
    torch.testing.assert_close(scores, additive_scores(x, y, weight), rtol=0, atol=0)
