"""Self-attention of the context.

Additive similarity is computed without the (B, T, J, size) tensor of its formula.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from models.configs.variant import ModelConfig
from models.modules.attention import TrilinearSimilarity
from models.modules.layers import MASKED, masked_softmax
from models.modules.mask import Mask
from models.modules.rnn import Encoder

# Elements of the (B, T, J, size) tensor held in memory at a time; on a CPU, they fit its cache.
CPU_CHUNK, GPU_CHUNK = 1 << 19, 1 << 26

# Exponents are clamped to ±80, where float32 neither overflows nor underflows.
LARGEST = 80.0


def additive_scores(attending: Tensor, attended: Tensor, weight: Tensor) -> Tensor:
    """s_tj = Σ_k weight_k·tanh(attending_tk + attended_jk), for inputs within ±40.

    Shapes (B, T, size), (B, J, size), (size,) -> (B, T, J). Memory besides the result is bounded:
    the (B, T, J, size) terms are computed in chunks, and once more for the gradients. Because
    tanh(x + y) = 1 − 2/(1 + e^2x·e^2y), exponentials are needed for only B·(T + J)·size numbers. A
    pair then costs a product and a division: on a CPU, a sixth of the time of a tanh.
    """
    with torch.autocast(attending.device.type, enabled=False):  # long sums need float32
        scores: Tensor = _AdditiveScores.apply(  # type: ignore[no-untyped-call]
            _at_least_float32(attending), _at_least_float32(attended), weight
        )
    return scores


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _AdditiveScores(torch.autograd.Function):
    """Σ_k w_k·(1 − 2r) with r = 1/(1 + x_t·y_j), from the exponentials x and y."""

    @staticmethod
    def forward(ctx: Any, attending: Tensor, attended: Tensor, weight: Tensor) -> Tensor:
        x, y = _exponential(attending), _exponential(attended)
        ctx.save_for_backward(x, y, weight)
        sums = x.new_empty(*x.shape[:2], y.shape[1])
        for rows, r in _chunks(x, y):
            sums[rows] = r @ weight
        return weight.sum() - 2 * sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, y, weight = ctx.saved_tensors
        grad_attending, grad_attended = torch.zeros_like(x), torch.zeros_like(y)
        grad_weight = gradients[0].sum().expand_as(weight).clone()
        for rows, r in _chunks(x, y):
            upstream = gradients[0][rows]  # (b, t, J)
            grad_weight -= 2 * (upstream.reshape(-1) @ r.view(-1, len(weight)))
            # The derivative of tanh is 4·(r − r²); factors common to all pairs are multiplied last.
            torch.addcmul(r, r, r, value=-1, out=r).mul_(upstream.unsqueeze(3))
            grad_attending[rows] = r.sum(2)
            grad_attended[rows[0]] += r.sum(1)
        return grad_attending * (4 * weight), grad_attended * (4 * weight), grad_weight


def _exponential(x: Tensor) -> Tensor:
    return (2 * x).clamp(-LARGEST, LARGEST).exp()


def _chunks(x: Tensor, y: Tensor) -> Iterator[tuple[tuple[slice, slice], Tensor]]:
    """Yield slices of examples and of rows t, and their 1/(1 + x_t·y_j) (b, t, J, size), which the
    caller may overwrite."""
    (examples, length, size), pairs = x.shape, y.shape[1]
    chunk = CPU_CHUNK if x.device.type == "cpu" else GPU_CHUNK
    budget = max(1, chunk // (pairs * size))
    step, examples_per_chunk = min(length, budget), min(examples, max(1, budget // length))
    buffer = x.new_empty(examples_per_chunk * step * pairs * size)
    one = x.new_ones(1)
    for e in range(0, examples, examples_per_chunk):
        for t in range(0, length, step):
            rows = (slice(e, e + examples_per_chunk), slice(t, t + step))
            left, right = x[rows].unsqueeze(2), y[rows[0]].unsqueeze(1)
            shape = (*left.shape[:2], pairs, size)
            out = buffer[: left.shape[0] * left.shape[1] * pairs * size].view(shape)
            yield rows, torch.addcmul(one, left, right, out=out).reciprocal_()


class Additive(nn.Module):
    """s_tj = vᵀtanh(W₁p_j + W₂p_t) (R-Net, eq. 8; the CS224n report's eq. 3)."""

    def __init__(self, size: int, hidden_size: int) -> None:
        super().__init__()
        self.of_attended = nn.Linear(size, hidden_size, bias=False)
        self.of_attending = nn.Linear(size, hidden_size, bias=False)
        self.weight = nn.Parameter(torch.empty(1, hidden_size))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, p: Tensor) -> Tensor:
        """(B, T, size) -> S (B, T, T), row t attends to column j"""
        return additive_scores(self.of_attending(p), self.of_attended(p), self.weight[0])


class Dot(nn.Module):
    """s_tj = (W₁p_j)·(W₂p_t): one matrix product (the CS224n report, §5.3)."""

    def __init__(self, size: int, hidden_size: int) -> None:
        super().__init__()
        self.of_attended = nn.Linear(size, hidden_size, bias=False)
        self.of_attending = nn.Linear(size, hidden_size, bias=False)

    def forward(self, p: Tensor) -> Tensor:
        """(B, T, size) -> S (B, T, T), row t attends to column j"""
        similarity: Tensor = self.of_attending(p) @ self.of_attended(p).transpose(1, 2)
        return similarity


class Elementwise(nn.Module):
    """s_tj = v·(p_t∘p_j): each number interacts only with its counterpart (the CS224n report,
    §5.2)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, size))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, p: Tensor) -> Tensor:
        """(B, T, size) -> S (B, T, T), row t attends to column j"""
        return (p * self.weight) @ p.transpose(1, 2)


def _similarity(config: ModelConfig, size: int) -> nn.Module:
    if config.self_attention == "elementwise":
        return Elementwise(size)
    kind = Additive if config.self_attention == "additive" else Dot
    return kind(size, config.hidden_size)


class SelfMatching(nn.Module):
    """BiLSTM over [p; c], where c_t = Σ_j softmax_j(s_tj)·p_j is the attention of token t over the
    whole context (R-Net's self-matching, without its gate)."""

    def __init__(self, config: ModelConfig, size: int) -> None:
        super().__init__()
        self.similarity = _similarity(config, size)
        self.encoder = Encoder(config, 2 * size, 1)

    def weights(self, p: Tensor, mask: Mask) -> Tensor:
        """(B, T, size), (B, T) -> (B, T, T); each row sums to 1 over real tokens"""
        return masked_softmax(self.similarity(p), mask.padding.unsqueeze(1), 2)

    def forward(self, p: Tensor, mask: Mask) -> Tensor:
        """p = G (B, T, size), (B, T) -> (B, T, 2d)"""
        out: Tensor = self.encoder(torch.cat([p, self.weights(p, mask) @ p], 2), mask)
        return out


class ResidualSelfAttention(nn.Module):
    """Modeling layer of Clark & Gardner (2018, §2): x = ReLU(G), then x + ReLU([c; m; c∘m]), with
    m = BiGRU(x) and c the attention of each token over the others: the diagonal is masked.

    Each row has an additional learned logit for "nothing", as in the authors' code. It also defines
    c for a context of one token: a zero vector.
    """

    def __init__(self, config: ModelConfig, size: int) -> None:
        super().__init__()
        width = 2 * config.hidden_size
        self.reduction = nn.Linear(size, width)
        self.encoder = Encoder(config, width, 1)
        self.similarity = TrilinearSimilarity(width)
        self.nothing = nn.Parameter(torch.tensor([-1.0]))
        self.merging = nn.Linear(3 * width, width)

    def weights(self, m: Tensor, mask: Mask) -> Tensor:
        """(B, T, 2d), (B, T) -> (B, T, T); each row sums to at most 1 over the other real tokens"""
        s = self.similarity(m, m)
        itself = torch.eye(m.shape[1], dtype=torch.bool, device=m.device)
        ignored = mask.padding.unsqueeze(1) | itself
        nothing = self.nothing.expand(*s.shape[:2], 1)
        return torch.softmax(torch.cat([s.masked_fill(ignored, MASKED), nothing], 2), 2)[..., :-1]

    def read(self, attention: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        """G (B, T, size), (B, T) -> x and m, (B, T, 2d) each"""
        x = torch.relu(self.reduction(attention))
        return x, self.encoder(x, mask)

    def forward(self, attention: Tensor, mask: Mask) -> Tensor:
        """G (B, T, size), (B, T) -> (B, T, 2d)"""
        x, m = self.read(attention, mask)
        c = self.weights(m, mask) @ m
        return x + torch.relu(self.merging(torch.cat([c, m, c * m], 2)))
