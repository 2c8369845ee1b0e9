"""Recurrent layers over padded sequences, exact under padding."""

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from models.configs.variant import ModelConfig
from models.modules.layers import Dropouts
from models.modules.mask import Mask


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
    """x (B, N, size) with each row reversed within its length; `index` (B·N,) is a
    `Mask.reversal`."""
    out: Tensor = _ReverseWithinLengths.apply(x, index)  # type: ignore[no-untyped-call]
    return out


class BidirectionalRNN(nn.Module):
    """Bidirectional LSTM, or GRU in cuDNN's formulation, on padded sequences, exact under padding.

    Packed sequences are an order of magnitude slower on CPUs than padded ones. Therefore the
    forward direction reads the padding last, where it can't affect real tokens, and the backward
    direction reads each row reversed within its own length.
    """

    def __init__(self, config: ModelConfig, input_size: int) -> None:
        super().__init__()
        cell = nn.LSTM if config.recurrent == "lstm" else nn.GRU
        self.ahead = cell(input_size, config.hidden_size, batch_first=True)
        self.back = cell(input_size, config.hidden_size, batch_first=True)

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        """(B, N, input_size), (B, N) -> (B, N, 2d), zeros at padding"""
        ahead, _ = run_layer(self.ahead, x)
        back, _ = run_layer(self.back, reverse_sequences(x, mask.reversal))
        back = reverse_sequences(back, mask.reversal)
        return torch.cat([ahead, back], 2) * mask.real.unsqueeze(2)


def run_layer(layer: nn.Module, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """The outputs of a recurrent layer and its last state.

    Autocast is ignored where it can't give bfloat16: cuDNN would get float16, in which gradients
    underflow, and oneDNN has no bfloat16 LSTM for CPUs without AVX-512.
    """
    has_bfloat16 = not x.is_cuda and "AVX512" in torch.backends.cpu.get_cpu_capability()
    autocasts = torch.is_autocast_enabled(x.device.type)
    if autocasts and not has_bfloat16:
        with torch.autocast(x.device.type, enabled=False):
            outputs = _run(layer, x.float(), state)
    elif autocasts and _is_odd_lstm(layer) and state is None:
        outputs = run_even_lstm(layer, x)
    else:
        outputs = _run(layer, x, state)
    return outputs


def _run(layer: nn.Module, x: Tensor, state: Any) -> tuple[Tensor, Any]:
    if state is None and isinstance(layer, nn.LSTM):
        zeros = x.new_zeros(1, len(x), layer.hidden_size)
        state = zeros, zeros  # once, where PyTorch fills two tensors
    outputs: tuple[Tensor, Any] = layer(x, state)
    return outputs


def keep_float32(device: torch.device) -> None:
    """Let cuDNN compute float32 LSTMs in float32; by default it rounds their inputs to TF32's
    bits."""
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False


def _is_odd_lstm(layer: nn.Module) -> TypeGuard[nn.LSTM]:
    return isinstance(layer, nn.LSTM) and layer.hidden_size % 2 == 1


def run_even_lstm(layer: nn.LSTM, x: Tensor) -> tuple[Tensor, Any]:
    """`layer(x)` with one more hidden unit, whose weights are zero and whose output stays zero.

    oneDNN multiplies bfloat16 numbers in pairs. Layers of an odd size miss its fast kernels and
    take two to three times as long.
    """
    size = layer.hidden_size
    of_input, of_hidden, *biases = (_with_zero_unit(weight, size) for weight in layer.parameters())
    zeros = x.new_zeros(1, x.shape[0], size + 1)
    outputs, hidden, cell = torch.lstm(
        x,
        (zeros, zeros),
        (of_input, nn.functional.pad(of_hidden, (0, 1)), *biases),
        has_biases=True,
        num_layers=1,
        dropout=0.0,
        train=layer.training,
        bidirectional=False,
        batch_first=True,
    )
    return outputs[..., :size], (hidden[..., :size], cell[..., :size])


def _with_zero_unit(weight: Tensor, size: int) -> Tensor:
    """(4·size, …), the weights of the four gates -> (4·(size + 1), …)"""
    gates = weight.view(4, size, *weight.shape[1:])
    return torch.cat([gates, gates.new_zeros(4, 1, *gates.shape[2:])], 1).flatten(0, 1)


class Encoder(nn.Module):
    """A stack of bidirectional layers, with dropout between them and, if configured, before or
    after them. (PyTorch ignores its own `dropout` argument on a single layer.)"""

    def __init__(self, config: ModelConfig, input_size: int, layers: int) -> None:
        super().__init__()
        sizes = [input_size] + [2 * config.hidden_size] * (layers - 1)
        self.layers = nn.ModuleList(BidirectionalRNN(config, size) for size in sizes)
        dropouts = Dropouts(config)
        self.before, self.between, self.behind = dropouts.before, dropouts.between, dropouts.behind

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        """(B, N, input_size), (B, N) -> (B, N, 2d)"""
        x = self.layers[0](self.before(x), mask)
        for layer in self.layers[1:]:
            x = layer(self.between(x), mask)
        out: Tensor = self.behind(x)
        return out
