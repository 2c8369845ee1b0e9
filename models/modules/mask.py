"""The tokens of padded rows, and what layers need to know about them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mask:
    """Which positions hold tokens. A step's layers share it, so that what follows from it is
    computed once."""

    real: Tensor  # (B, N), True at tokens, which come first in each row

    @cached_property
    def padding(self) -> Tensor:
        """(B, N), True at padding"""
        return ~self.real

    @cached_property
    def reversal(self) -> Tensor:
        """(B·N,): each step's position among the steps of all rows after every row's tokens are
        reversed; padding stays in place."""
        rows, steps = self.real.shape
        first = torch.arange(0, rows * steps, steps, device=self.real.device).unsqueeze(1)
        last = self.real.sum(1, keepdim=True) - 1
        positions = torch.arange(steps, device=self.real.device)
        return (torch.where(self.real, last - positions, positions) + first).flatten()
