"""The LSTM layers of a language model. A state is (output, cell), each (1, rows, size)."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from models.language_model.config import BiLMConfig
from models.modules.layers import draw_weights
from models.modules.rnn import run_layer

State = tuple[Tensor, Tensor]
# The gates' inputs, four times as wide as the cell, are computed for so many steps at once.
STEPS_AT_ONCE = 128


class ClippedLSTM(nn.Module):
    """An LSTM with a projected output, and with clips of cell and output, as in TensorFlow.

    The gates are in TensorFlow's order: input, candidate, forget, output. 1 is added to the
    forget gate's logit.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        size, projected = config.hidden_size, config.projection_size
        self.inputs = nn.Linear(projected, 4 * size)
        self.recurrent = nn.Linear(projected, 4 * size, bias=False)
        self.projection = nn.Linear(size, projected, bias=False)
        self.cell_clip, self.projection_clip = config.cell_clip, config.projection_clip

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """(B, N, P), state -> (B, N, P), state after the last step"""
        output, cell = (part.squeeze(0) for part in state)
        outputs = []
        for inputs in self._inputs_of_steps(x):
            i, j, f, o = (inputs + self.recurrent(output)).chunk(4, 1)
            cell = torch.sigmoid(f + 1) * cell + torch.sigmoid(i) * torch.tanh(j)
            cell = _clip(cell, self.cell_clip)
            output = self.projection(torch.sigmoid(o) * torch.tanh(cell))
            output = _clip(output, self.projection_clip)
            outputs.append(output)
        return torch.stack(outputs, 1), (output.unsqueeze(0), cell.unsqueeze(0))

    def _inputs_of_steps(self, x: Tensor) -> Iterator[Tensor]:
        """Yield the part of each step's gates that depends on its input, (B, 4 * hidden size)."""
        for part in torch.split(x, STEPS_AT_ONCE, 1):
            yield from self.inputs(part).unbind(1)


def _clip(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)


class StackedLSTM(nn.Module):
    """The LSTM layers of one direction; each layer from the second on adds its input."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(_layer(config) for _ in range(config.layers))

    def first_states(self, rows: int, device: torch.device) -> list[State]:
        """The states before the first word: zeros."""
        sizes = (self.config.projection_size, self.config.hidden_size)
        output, cell = (torch.zeros(1, rows, size, device=device) for size in sizes)
        return [(output, cell)] * self.config.layers

    def forward(self, x: Tensor, states: list[State]) -> tuple[list[Tensor], list[State]]:
        """(B, N, P), a state per layer -> each layer's output (B, N, P), and the states after the
        last step"""
        outputs: list[Tensor] = []
        after: list[State] = []
        for layer, state in zip(self.layers, states, strict=True):
            read, new_state = run_layer(layer, x, state)
            x = read + x if outputs else read
            outputs.append(x)
            after.append(new_state)
        return outputs, after


def _layer(config: BiLMConfig) -> nn.Module:
    if not config.is_plain:
        return ClippedLSTM(config)
    layer = nn.LSTM(config.projection_size, config.hidden_size, batch_first=True)
    draw_weights(layer)
    return layer
