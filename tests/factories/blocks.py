"""Shapes, masks and reference formulas in double precision, for the tests of single blocks."""

import math
from collections.abc import Sequence

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.modules.attention import TrilinearSimilarity
from models.modules.mask import Mask
from models.modules.rnn import BidirectionalRNN

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)
SEEDS = st.integers(0, 10_000)
SIZES = st.integers(1, 4)

few = settings(max_examples=30)


def make_mask(lengths: Sequence[int], extra: int = 0) -> Mask:
    """A mask (B, longest + extra), real at each row's first `length` positions."""
    return Mask(torch.arange(max(lengths) + extra) < torch.tensor(lengths).unsqueeze(1))


def random_tensor(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-9)


def packed(layers: Sequence[BidirectionalRNN], x: Tensor, lengths: list[int]) -> Tensor:
    """The output of PyTorch's own bidirectional layers, with these weights, on packed sequences."""
    cell, hidden = type(layers[0].ahead), layers[0].ahead.hidden_size
    reference = cell(x.shape[2], hidden, len(layers), batch_first=True, bidirectional=True).double()
    with torch.no_grad():
        for i, layer in enumerate(layers):
            for suffix, direction in (("", layer.ahead), ("_reverse", layer.back)):
                for name, weight in direction.named_parameters():
                    own = name.replace("l0", f"l{i}") + suffix
                    getattr(reference, own).copy_(weight)
    sequence = pack_padded_sequence(x, torch.tensor(lengths), True, enforce_sorted=False)
    out, _ = pad_packed_sequence(reference(sequence)[0], True, total_length=x.shape[1])
    return out


def trilinear(similarity: TrilinearSimilarity, left: Tensor, right: Tensor) -> list[list[Tensor]]:
    """w·[h; u; h∘u] + b of each pair (h, u)."""
    parts = (similarity.context_weight, similarity.question_weight, similarity.product_weight)
    w = torch.cat([part.flatten() for part in parts])
    return [[w @ torch.cat([h, u, h * u]) + similarity.bias[0] for u in right] for h in left]


def softmax(logits: list[Tensor]) -> list[Tensor]:
    exponentials = [math.e**x for x in logits]
    return [e / sum(exponentials) for e in exponentials]
