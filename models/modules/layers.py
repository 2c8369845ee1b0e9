"""Building blocks of other layers, and their initial weights.

Padding changes no result.
"""

import torch
from torch import Tensor, nn

from models.configs.variant import ModelConfig

# Logit of a position that must get probability 0; finite, so that 0·log 0 never occurs.
MASKED = -1e30


def masked_softmax(logits: Tensor, padding: Tensor, dim: int) -> Tensor:
    """Softmax over the positions where `padding` is False; the others get exactly 0."""
    return torch.softmax(logits.masked_fill(padding, MASKED), dim)


class Highway(nn.Module):
    """y = t∘g(W_H x) + (1 − t)∘x with t = σ(W_T x), g = ReLU (Srivastava et al., 2015, eq. 3).
    The gate's bias keeps PyTorch's initialisation around 0, as in the starter."""

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
    """Dropout with masks that are cheap on CPUs: eight elements share one random draw, one byte
    each, so the rate is rounded to a multiple of 1/256."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.dropped = round(rate * 256)  # byte values that drop their element

    def forward(self, x: Tensor) -> Tensor:
        """(*) -> (*), with the mean preserved"""
        if not self.training or self.dropped == 0:
            return x
        draws = torch.empty(x.numel() // 8 + 1, dtype=torch.int64, device=x.device)
        # Start at the lowest int64, so that all 64 bits are random.
        draws.random_(torch.iinfo(torch.int64).min, None)
        kept = draws.view(torch.uint8)[: x.numel()].view(x.shape) >= self.dropped
        return x * (kept * (256 / (256 - self.dropped))).to(x.dtype)


class VariationalDropout(nn.Module):
    """Dropout with one mask for all steps of a sequence (Gal & Ghahramani, 2016)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, size) -> (B, N, size), with the mean preserved"""
        if not self.training or self.rate == 0:
            return x
        kept = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= self.rate
        return x * (kept / (1 - self.rate)).to(x.dtype)


class Dropouts:
    """The dropout module for each place in the model, by the configured `dropout_form`. These
    modules have no weights or state."""

    def __init__(self, config: ModelConfig) -> None:
        form, rate = config.dropout_form, config.dropout
        nothing, plain = nn.Identity(), Dropout(rate)
        self.between = VariationalDropout(rate) if form == "variational" else plain
        self.before = nothing if form == "outputs" else self.between
        self.behind = nothing if form == "inputs" else self.between
        self.embeddings = plain if form == "outputs" else nothing
        self.similarity = plain if form == "outputs" else nothing
        self.characters = nothing if form == "outputs" else plain
        self.output = plain if form == "inputs" else nothing


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
