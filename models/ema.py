"""Averaged weights, which are evaluated and served instead of the last step's weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class AveragedWeights:
    """Exponential moving average of the trained weights, whose decay is warmed up as
    min(d, (1 + n)/(10 + n)), as in the CS224n starter."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.live = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.averaged = {n: p.detach().clone() for n, p in self.live.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the averages from the current weights; `step` counts from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averaged: list[Tensor] = list(self.averaged.values())
        live: list[Tensor] = list(self.live.values())
        torch._foreach_lerp_(averaged, live, 1 - decay)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Swap the averages into the model for the duration of the block."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, live in self.live.items():
            previous = live.clone()
            live.copy_(self.averaged[name])
            self.averaged[name].copy_(previous)
