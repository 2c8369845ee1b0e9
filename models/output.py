"""From what the model has read to the logits of an answer."""

from __future__ import annotations

from torch import Tensor, nn

from models.layers import MASKED
from models.recurrent import Encoder


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
