"""The blocks of BiDAF. Every one takes masks (True = real token); padding changes no result."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.config import CharacterConfig, QueryToContext

MASKED = -1e30
"""Logit of a position that must get no probability; finite, so that 0·log 0 is never formed."""


def masked_softmax(logits: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Softmax over the positions where `mask` is True; the others get exactly 0."""
    return torch.softmax(logits.masked_fill(~mask, MASKED), dim)


class CharacterCNN(nn.Module):
    """Characters of words -> one vector a word (Kim, 2015): 1-D convolution, ReLU, max over
    the windows that hold real characters. Words shorter than the kernel are padded to it."""

    def __init__(self, characters: int, config: CharacterConfig) -> None:
        super().__init__()
        self.kernel_width = config.kernel_width
        self.embedding = nn.Embedding(characters, config.embedding_size, padding_idx=0)
        self.convolution = nn.Conv1d(config.embedding_size, config.filters, config.kernel_width)

    def forward(self, characters: Tensor) -> Tensor:
        """(U, C) character indices, 0 = padding -> (U, filters)"""
        missing = max(0, self.kernel_width - characters.shape[1])
        characters = F.pad(characters, (0, missing))
        features = self.convolution(self.embedding(characters).transpose(1, 2))  # (U, filters, W)
        lengths = (characters != 0).sum(1, keepdim=True)
        last_window = (lengths - self.kernel_width).clamp(min=0)
        windows = torch.arange(features.shape[2], device=characters.device)
        real = (windows <= last_window).unsqueeze(1)
        # After the ReLU every feature is at least 0, so masking with 0 is masking with -inf.
        best: Tensor = (features.relu() * real).amax(2)
        return best


class Highway(nn.Module):
    """y = t∘g(W_H x) + (1 − t)∘x with t = σ(W_T x), g = ReLU (Srivastava et al., 2015, eq. 3).
    The gate's bias starts as PyTorch draws it, around 0, as in the starter."""

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


class _ReverseWithinLengths(torch.autograd.Function):
    """Reverses each row's first `length` steps. It is its own inverse, and so its own gradient,
    which spares the scatter that `gather`'s gradient would need."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        return x.gather(1, index.expand_as(x))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return gradients[0].gather(1, index.expand_as(gradients[0])), None


def _reversed(x: Tensor, index: Tensor) -> Tensor:
    out: Tensor = _ReverseWithinLengths.apply(x, index)  # type: ignore[no-untyped-call]
    return out


def reversal_index(mask: Tensor) -> Tensor:
    """(B, N) mask, real tokens first -> (B, N, 1) positions that reverse them and keep the rest."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    lengths = mask.sum(1, keepdim=True)
    return torch.where(mask, lengths - 1 - positions, positions).unsqueeze(2)


class BiLSTM(nn.Module):
    """Bidirectional LSTM on padded sequences, exact under padding.

    Packed sequences are an order of magnitude slower on CPUs than padded ones. So the forward
    direction reads the padding last, where it can't be seen, and the backward direction reads
    each row reversed within its own length.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.back = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, N, input_size), (B, N) -> (B, N, 2·hidden_size), zeros at padding"""
        index = reversal_index(mask)
        ahead, _ = self.ahead(x)
        back, _ = self.back(_reversed(x, index))
        return torch.cat([ahead, _reversed(back, index)], 2) * mask.unsqueeze(2)


class Dropout(nn.Module):
    """Dropout whose masks cost little on CPUs: eight elements share one random draw, a byte each,
    so the rate is rounded to a multiple of 1/256."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.dropped = round(rate * 256)  # byte values that drop their element

    def forward(self, x: Tensor) -> Tensor:
        """(*) -> (*), the mean kept"""
        if not self.training or self.dropped == 0:
            return x
        draws = torch.empty(x.numel() // 8 + 1, dtype=torch.int64, device=x.device)
        # From the lowest number on, so that all 64 bits are random.
        draws.random_(torch.iinfo(torch.int64).min, None)
        kept = draws.view(torch.uint8)[: x.numel()].view(x.shape) >= self.dropped
        return x * (kept * (256 / (256 - self.dropped)))


class Encoder(nn.Module):
    """A stack of BiLSTMs with dropout behind each layer, the last included."""

    def __init__(self, input_size: int, hidden_size: int, layers: int, dropout: float) -> None:
        super().__init__()
        sizes = [input_size] + [2 * hidden_size] * (layers - 1)
        self.layers = nn.ModuleList(BiLSTM(size, hidden_size) for size in sizes)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, N, input_size), (B, N) -> (B, N, 2·hidden_size)"""
        for layer in self.layers:
            x = self.dropout(layer(x, mask))
        return x


class AttentionFlow(nn.Module):
    """Bidirectional attention flow (Seo et al., 2017, §2 layer 4).

    The similarity w·[h; u; h∘u] is computed as w1·h + w2·u + (h∘w3)·u, which never forms the
    (B, T, J, 3·size) tensor.
    """

    def __init__(self, size: int, query_to_context: QueryToContext, dropout: float) -> None:
        super().__init__()
        self.query_to_context = query_to_context
        self.dropout = Dropout(dropout)
        self.context_weight = nn.Parameter(torch.empty(size, 1))
        self.question_weight = nn.Parameter(torch.empty(size, 1))
        self.product_weight = nn.Parameter(torch.empty(1, 1, size))
        for weight in (self.context_weight, self.question_weight, self.product_weight):
            nn.init.xavier_uniform_(weight)
        self.bias = nn.Parameter(torch.zeros(1))

    def similarity(self, context: Tensor, question: Tensor) -> Tensor:
        """(B, T, size), (B, J, size) -> S (B, T, J)"""
        context, question = self.dropout(context), self.dropout(question)
        products = (context * self.product_weight) @ question.transpose(1, 2)
        of_context = context @ self.context_weight  # (B, T, 1)
        of_question = (question @ self.question_weight).transpose(1, 2)  # (B, 1, J)
        similarity: Tensor = products + of_context + of_question + self.bias
        return similarity

    def forward(
        self, context: Tensor, question: Tensor, context_mask: Tensor, question_mask: Tensor
    ) -> Tensor:
        """H (B, T, size), U (B, J, size) -> G = [h; ũ; h∘ũ; h∘h̃] (B, T, 4·size)"""
        s = self.similarity(context, question)
        over_question = masked_softmax(s, question_mask.unsqueeze(1), 2)  # (B, T, J)
        attended_question = over_question @ question
        if self.query_to_context == "max":
            best = s.masked_fill(~question_mask.unsqueeze(1), MASKED).amax(2)  # (B, T)
            over_context = masked_softmax(best, context_mask, 1).unsqueeze(1)
            attended_context = over_context @ context  # (B, 1, size), the same for every t
        else:
            over_context = masked_softmax(s, context_mask.unsqueeze(2), 1)  # (B, T, J)
            attended_context = over_question @ (over_context.transpose(1, 2) @ context)
        return torch.cat(
            [context, attended_question, context * attended_question, context * attended_context],
            2,
        )


class SpanOutput(nn.Module):
    """Start from [G; M], end from [G; BiLSTM(M)], each one a linear map to one logit a token."""

    def __init__(self, attention_size: int, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.start_attention = nn.Linear(attention_size, 1)
        self.start_modeling = nn.Linear(2 * hidden_size, 1)
        self.encoder = Encoder(2 * hidden_size, hidden_size, 1, dropout)
        self.end_attention = nn.Linear(attention_size, 1)
        self.end_modeling = nn.Linear(2 * hidden_size, 1)

    def forward(self, attention: Tensor, modeling: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """G (B, T, attention_size), M (B, T, 2·hidden_size) -> start and end logits, (B, T) each"""
        start = self.start_attention(attention) + self.start_modeling(modeling)
        again = self.encoder(modeling, mask)
        end = self.end_attention(attention) + self.end_modeling(again)
        return (
            start.squeeze(2).masked_fill(~mask, MASKED),
            end.squeeze(2).masked_fill(~mask, MASKED),
        )
