"""Initial weights of linear and recurrent layers."""

from __future__ import annotations

from torch import Tensor, nn


def draw_weights(module: nn.Module) -> None:
    """Initialise a linear or recurrent layer: Glorot uniform as in the original TensorFlow code,
    with orthogonal recurrent matrices, recurrent biases 0 and LSTM forget biases 1.

    PyTorch's default range is so narrow that the difference between two unknown words shrinks
    fiftyfold on its way through highway network and LSTM; training then picks it up much later.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
    if isinstance(module, nn.LSTM | nn.GRU):
        for name, parameter in module.named_parameters():
            gates = parameter.data.chunk(len(parameter) // module.hidden_size)
            _draw_gates(name, gates, isinstance(module, nn.LSTM))


def _draw_gates(name: str, gates: tuple[Tensor, ...], of_lstm: bool) -> None:
    """Initialise one parameter of a recurrent layer, split by gate (of an LSTM: i, f, g, o)."""
    for gate in gates:
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(gate)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(gate)
        else:
            nn.init.zeros_(gate)
    if of_lstm and name.startswith("bias_ih"):
        nn.init.ones_(gates[1])
