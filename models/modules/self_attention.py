"""Self-attention of the context."""

import torch
from torch import Tensor, nn

from models.configs.variant import ModelConfig
from models.modules.additive_attention import additive_scores
from models.modules.attention import TrilinearSimilarity
from models.modules.layers import MASKED, masked_softmax
from models.modules.rnn import Encoder


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

    def weights(self, p: Tensor, mask: Tensor) -> Tensor:
        """(B, T, size), (B, T) -> (B, T, T); each row sums to 1 over real tokens"""
        return masked_softmax(self.similarity(p), mask.unsqueeze(1), 2)

    def forward(self, p: Tensor, mask: Tensor) -> Tensor:
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

    def weights(self, m: Tensor, mask: Tensor) -> Tensor:
        """(B, T, 2d), (B, T) -> (B, T, T); each row sums to at most 1 over the other real tokens"""
        s = self.similarity(m, m)
        others = mask.unsqueeze(1) & ~torch.eye(m.shape[1], dtype=torch.bool, device=m.device)
        nothing = self.nothing.expand(*s.shape[:2], 1)
        logits = torch.cat([s.masked_fill(~others, MASKED), nothing], 2)
        return torch.softmax(logits, 2)[..., :-1]

    def read(self, attention: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """G (B, T, size), (B, T) -> x and m, (B, T, 2d) each"""
        x = torch.relu(self.reduction(attention))
        return x, self.encoder(x, mask)

    def forward(self, attention: Tensor, mask: Tensor) -> Tensor:
        """G (B, T, size), (B, T) -> (B, T, 2d)"""
        x, m = self.read(attention, mask)
        c = self.weights(m, mask) @ m
        return x + torch.relu(self.merging(torch.cat([c, m, c * m], 2)))
