"""Mixes several sets of word vectors by a learned gate."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.modules.layers import masked_softmax


class VectorGate(nn.Module):
    """Dynamic meta-embeddings (Kiela et al., 2018, section 3.2): per word,
    Σ_i α_i·P_i·w_i, with α = softmax_i(a·P_i·w_i), over the sets i that know the word.

    P_i projects set i to the common size, without a bias, so that a word that no set knows keeps a
    zero vector. If no set knows it, but it has (random) vectors, they are averaged. The paper's
    scalar bias of the gate is omitted: it cancels in the softmax.
    """

    def __init__(self, sizes: Sequence[int], size: int) -> None:
        """`sizes` are those of the sets, `size` is the common one."""
        super().__init__()
        self.sizes = list(sizes)
        self.projections = nn.ModuleList(nn.Linear(e, size, bias=False) for e in sizes)
        self.score = nn.Linear(size, 1, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """(U, Σ(e_i + 1)): each set's vectors, followed by 1 if it knows the word -> (U, size)"""
        parts = torch.split(vectors, [size + 1 for size in self.sizes], dim=1)
        projected = torch.stack(
            [project(part[:, :-1]) for project, part in zip(self.projections, parts, strict=True)],
            dim=1,
        )  # (U, sets, size)
        known = torch.stack([part[:, -1] for part in parts], dim=1) > 0  # (U, sets)
        weights = masked_softmax(self.score(projected).squeeze(2), known, dim=1)
        return (weights.unsqueeze(2) * projected).sum(dim=1)
