"""The output layers, compared with their formulas in plain loops over PyTorch's RNNs."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from models.configs.variant import ModelConfig
from models.modules.layers import MASKED
from models.modules.output import ChainedOutput, SpanOutput
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

POINTERS: list[str] = ["independent", "conditioned"]


def make_output(pointer: str, size: int, hidden: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    config = ModelConfig(hidden, end_pointer=pointer)
    output = ChainedOutput(config) if pointer == "chained" else SpanOutput(config, size)
    return output.double().eval()


def spans(output: SpanOutput, g: Tensor, m: Tensor) -> Tensor:
    """(2, T) logits of one example without padding."""
    tokens = range(len(g))
    start = [output.start_attention(g[t]) + output.start_modeling(m[t]) for t in tokens]
    read = m
    if output.conditioned:
        total = sum(logit.exp() for logit in start)
        attended = sum(start[t].exp() / total * m[t] for t in tokens)
        read = torch.stack([torch.cat([g[t], m[t], attended, m[t] * attended]) for t in tokens])
    again = packed(list(output.encoder.layers), read.unsqueeze(0), [len(g)])[0]
    end = [output.end_attention(g[t]) + output.end_modeling(again[t]) for t in tokens]
    return torch.stack([torch.cat(start), torch.cat(end)])


def chained(output: ChainedOutput, m: Tensor) -> Tensor:
    """(2, T) logits of one example without padding."""
    first = packed([output.start_encoder], m.unsqueeze(0), [len(m)])
    last = packed([output.end_encoder], torch.cat([m.unsqueeze(0), first], 2), [len(m)])
    return torch.stack([output.start(first)[0, :, 0], output.end(last)[0, :, 0]])


@few
@given(
    lengths=LENGTHS,
    extra=st.integers(0, 2),
    pointer=st.sampled_from([*POINTERS, "chained"]),
    size=SIZES,
    hidden=SIZES,
    seed=SEEDS,
)
def test_output_layers_match_reference(
    lengths: list[int], extra: int, pointer: str, size: int, hidden: int, seed: int
) -> None:
    output = make_output(pointer, size, hidden, seed)
    mask = make_mask(lengths, extra)
    g, m = (
        random_tensor(seed, *mask.real.shape, size),
        random_tensor(seed + 1, *mask.real.shape, 2 * hidden),
    )
    actual = torch.stack(output(g, m, mask))
    assert (actual[:, mask.padding] == MASKED).all()
    for b, length in enumerate(lengths):
        own_g, own_m = g[b, :length], m[b, :length]
        if isinstance(output, ChainedOutput):
            expected = chained(output, own_m)
        else:
            assert isinstance(output, SpanOutput)
            expected = spans(output, own_g, own_m)
        assert_close(actual[:, b, :length], expected)
