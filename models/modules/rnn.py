"""Recurrent layers over padded sequences, exact under padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.configs.variant import ModelConfig
from models.modules.layers import Dropouts


class _ReverseWithinLengths(torch.autograd.Function):
    """Reverses each row's first `length` steps. The operation is its own inverse and therefore its
    own gradient, which avoids the scatter that `index_select`'s gradient would need."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        return _steps_at(x, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return _steps_at(gradients[0], index), None


def _steps_at(x: Tensor, index: Tensor) -> Tensor:
    # Copies whole rows; `gather` copies single numbers and takes 14 times as long on CPUs.
    return x.flatten(0, 1).index_select(0, index).view_as(x)


def reverse_sequences(x: Tensor, index: Tensor) -> Tensor:
    """x (B, N, size) with each row reversed within its length; `index` (B·N,) comes from
    `reversal_index`."""
    out: Tensor = _ReverseWithinLengths.apply(x, index)  # type: ignore[no-untyped-call]
    return out


def reversal_index(mask: Tensor) -> Tensor:
    """(B, N) mask, real tokens first -> (B·N,): each step's position among the steps of all rows
    after every row's real tokens are reversed; padding stays in place."""
    rows, steps = mask.shape
    positions = torch.arange(steps, device=mask.device).expand_as(mask)
    lengths = mask.sum(1, keepdim=True)
    within = torch.where(mask, lengths - 1 - positions, positions)
    return (within + steps * torch.arange(rows, device=mask.device).unsqueeze(1)).flatten()


class BiLSTM(nn.Module):
    """Bidirectional LSTM on padded sequences, exact under padding.

    Packed sequences are an order of magnitude slower on CPUs than padded ones. Therefore the
    forward direction reads the padding last, where it can't affect real tokens, and the backward
    direction reads each row reversed within its own length.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.back = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, N, input_size), (B, N) -> (B, N, 2·hidden_size), zeros at padding"""
        return _run_both_directions(self.ahead, self.back, x, mask)


class BiGRU(nn.Module):
    """Bidirectional GRU in cuDNN's formulation, exact under padding like `BiLSTM`."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.ahead = nn.GRU(input_size, hidden_size, batch_first=True)
        self.back = nn.GRU(input_size, hidden_size, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, N, input_size), (B, N) -> (B, N, 2·hidden_size), zeros at padding"""
        return _run_both_directions(self.ahead, self.back, x, mask)


def _run_both_directions(ahead: nn.Module, back: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    index = reversal_index(mask)
    read_ahead, read_back = _run_layer(ahead, x), _run_layer(back, reverse_sequences(x, index))
    return torch.cat([read_ahead, reverse_sequences(read_back, index)], 2) * mask.unsqueeze(2)


def _run_layer(layer: nn.Module, x: Tensor) -> Tensor:
    if x.is_cuda:  # autocast always gives cuDNN float16, in which gradients underflow
        with torch.autocast("cuda", enabled=False):
            output: Tensor = layer(x.float())[0]
    else:
        output = layer(x)[0]
    return output


def bidirectional(config: ModelConfig, input_size: int) -> BiLSTM | BiGRU:
    """One recurrent layer with the config's cell and hidden size d: (B, N, input) -> (B, N, 2d)."""
    cell = BiLSTM if config.recurrent == "lstm" else BiGRU
    return cell(input_size, config.hidden_size)


class Encoder(nn.Module):
    """A stack of bidirectional layers, with dropout between them and, if configured, before or
    after them. (PyTorch ignores its own `dropout` argument on a single layer.)"""

    def __init__(self, config: ModelConfig, input_size: int, layers: int) -> None:
        super().__init__()
        sizes = [input_size] + [2 * config.hidden_size] * (layers - 1)
        self.layers = nn.ModuleList(bidirectional(config, size) for size in sizes)
        dropouts = Dropouts(config)
        self.before, self.between, self.behind = (
            dropouts.before,
            dropouts.between,
            dropouts.behind,
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, N, input_size), (B, N) -> (B, N, 2d)"""
        x = self.layers[0](self.before(x), mask)
        for layer in self.layers[1:]:
            x = layer(self.between(x), mask)
        out: Tensor = self.behind(x)
        return out
