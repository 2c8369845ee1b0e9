"""Mixes the layers of a frozen language model into one contextual vector per token."""

import torch
from torch import Tensor, nn

from models.modules.layers import Dropout


class LayerMix(nn.Module):
    """γ·Σ_k s_k·h_k with s = softmax(w) (Peters et al., 2018, eq. 1), followed by dropout.

    w starts at 0 and γ at 1: the mean of the layers.
    """

    def __init__(self, layers: int, dropout: float) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(1))
        self.dropout = Dropout(dropout)

    def forward(self, layers: Tensor) -> Tensor:
        """(B, N, K, size), in any precision -> (B, N, size)"""
        shares = torch.softmax(self.weights, 0) * self.scale
        with torch.autocast(layers.device.type, enabled=False):
            out: Tensor = self.dropout(torch.matmul(shares, layers.to(shares.dtype)))
        return out
