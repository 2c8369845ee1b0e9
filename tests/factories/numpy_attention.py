"""Attention, computed directly from its formula."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.modules.attention import TrilinearSimilarity


def trilinear(similarity: TrilinearSimilarity, left: Tensor, right: Tensor) -> list[list[Tensor]]:
    """w·[h; u; h∘u] + b of each pair (h, u)."""
    parts = (similarity.context_weight, similarity.question_weight, similarity.product_weight)
    w = torch.cat([part.flatten() for part in parts])
    return [[w @ torch.cat([h, u, h * u]) + similarity.bias[0] for u in right] for h in left]


def softmax(logits: list[Tensor]) -> list[Tensor]:
    exponentials = [math.e**x for x in logits]
    return [e / sum(exponentials) for e in exponentials]
