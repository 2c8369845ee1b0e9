"""Additive similarity of all pairs, without the (B, T, J, size) tensor of its formula."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

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
