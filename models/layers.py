"""The blocks that several others need. Masks are True at real tokens; padding changes no result."""

from __future__ import annotations

import torch
from torch import Tensor, nn

MASKED = -1e30
"""Logit of a position that must get no probability; finite, so that 0·log 0 is never formed."""


def masked_softmax(logits: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Softmax over the positions where `mask` is True; the others get exactly 0."""
    return torch.softmax(logits.masked_fill(~mask, MASKED), dim)


class Highway(nn.Module):
    """y = t∘g(W_H x) + (1 − t)∘x with t = σ(W_T x), g = ReLU (Srivastava et al., 2015, eq. 3).
    The gate's bias starts as PyTorch draws it, around 0, as in the starter."""

    def __init__(self, size: int, layers: int = 2) -> None:
        super().__init__()
        self.transforms = nn.ModuleList(nn.Linear(size, size) for _ in range(layers))
        self.gates = nn.ModuleList(nn.Linear(size, size) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """(*, size) -> (*, size)"""
        for transform, gate in zip(self.transforms, self.gates, strict=True):
            t = torch.sigmoid(gate(x))
            x = t * torch.relu(transform(x)) + (1 - t) * x
        return x


class Dropout(nn.Module):
    """Dropout whose masks cost little on CPUs: eight elements share one random draw, a byte each,
    so the rate is rounded to a multiple of 1/256."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.dropped = round(rate * 256)  # byte values that drop their element

    def forward(self, x: Tensor) -> Tensor:
        """(*) -> (*), the mean kept"""
        if not self.training or self.dropped == 0:
            return x
        draws = torch.empty(x.numel() // 8 + 1, dtype=torch.int64, device=x.device)
        # From the lowest number on, so that all 64 bits are random.
        draws.random_(torch.iinfo(torch.int64).min, None)
        kept = draws.view(torch.uint8)[: x.numel()].view(x.shape) >= self.dropped
        return x * (kept * (256 / (256 - self.dropped)))
