"""Output layers: logits of an answer's first and last token."""

import torch
from torch import Tensor, nn

from models.configs.variant import ModelConfig
from models.modules.layers import MASKED, Dropouts, masked_softmax
from models.modules.mask import Mask
from models.modules.rnn import BidirectionalRNN, Encoder


class SpanOutput(nn.Module):
    """Start logits from [G; M] and end logits from [G; M²], each by a linear map to one logit per
    token.

    M² is BiLSTM(M) (Seo et al., 2017, §2 layer 6). If the end is conditioned on the start, it is
    BiLSTM([G; M; a¹; M∘a¹]) with a¹ = Σ p¹M and p¹ the start's probabilities (their code).
    """

    def __init__(self, config: ModelConfig, attention_size: int) -> None:
        super().__init__()
        width = 2 * config.hidden_size
        self.conditioned = config.end_pointer == "conditioned"
        self.dropout = Dropouts(config).output
        self.start_attention = nn.Linear(attention_size, 1)
        self.start_modeling = nn.Linear(width, 1)
        end_size = attention_size + 3 * width if self.conditioned else width
        self.encoder = Encoder(config, end_size, 1)
        self.end_attention = nn.Linear(attention_size, 1)
        self.end_modeling = nn.Linear(width, 1)

    def forward(self, attention: Tensor, modeling: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        """G (B, T, attention_size), M (B, T, 2d) -> start and end logits, (B, T) each"""
        drop = self.dropout
        start = self.start_attention(drop(attention)) + self.start_modeling(drop(modeling))
        start = start.squeeze(2).masked_fill(mask.padding, MASKED)
        if self.conditioned:
            modeling = _condition_on_start(attention, modeling, start, mask)
        end_states = self.encoder(modeling, mask)
        end = self.end_attention(drop(attention)) + self.end_modeling(drop(end_states))
        return start, end.squeeze(2).masked_fill(mask.padding, MASKED)


def _condition_on_start(attention: Tensor, modeling: Tensor, start: Tensor, mask: Mask) -> Tensor:
    """[G; M; a¹; M∘a¹] (B, T, attention_size + 6d)"""
    start_probabilities = masked_softmax(start, mask.padding, 1).unsqueeze(1)  # (B, 1, T)
    attended = (start_probabilities @ modeling).expand_as(modeling)
    return torch.cat([attention, modeling, attended, modeling * attended], 2)


class ChainedOutput(nn.Module):
    """Start logits from M¹ = BiGRU(M), end logits from M² = BiGRU([M; M¹]) (Clark & Gardner, 2018,
    §2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = 2 * config.hidden_size
        self.dropout = Dropouts(config).before
        self.start_encoder = BidirectionalRNN(config, width)
        self.end_encoder = BidirectionalRNN(config, 2 * width)
        self.start = nn.Linear(width, 1)
        self.end = nn.Linear(width, 1)

    def forward(self, attention: Tensor, modeling: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        """M (B, T, 2d) -> start and end logits, (B, T) each; G is not used"""
        modeling = self.dropout(modeling)
        first = self.start_encoder(modeling, mask)
        last = self.end_encoder(torch.cat([modeling, first], 2), mask)
        return (
            self.start(first).squeeze(2).masked_fill(mask.padding, MASKED),
            self.end(last).squeeze(2).masked_fill(mask.padding, MASKED),
        )
