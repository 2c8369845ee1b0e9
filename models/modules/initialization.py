"""The first weights of linear and recurrent layers."""

from __future__ import annotations

from torch import Tensor, nn


def draw_weights(module: nn.Module) -> None:
    """First weights of linear and recurrent layers: Glorot uniform as in the original code's
    TensorFlow, recurrent matrices orthogonal, recurrent biases 0 and an LSTM's forget biases 1.

    PyTorch's own draw is so narrow that what tells two unknown words apart leaves highway and LSTM
    fifty times smaller than it came, and training finds it much later.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
    if isinstance(module, nn.LSTM | nn.GRU):
        for name, parameter in module.named_parameters():
            gates = parameter.data.chunk(len(parameter) // module.hidden_size)
            _draw_gates(name, gates, isinstance(module, nn.LSTM))


def _draw_gates(name: str, gates: tuple[Tensor, ...], of_lstm: bool) -> None:
    """One parameter of a recurrent layer, as its parts for each gate (an LSTM's: i, f, g, o)."""
    for gate in gates:
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(gate)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(gate)
        else:
            nn.init.zeros_(gate)
    if of_lstm and name.startswith("bias_ih"):
        nn.init.ones_(gates[1])
