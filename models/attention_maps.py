"""Attention weights of a model for a batch of examples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.batching import Batch
from models.bidaf import BiDAF
from models.modules.mask import Mask
from models.modules.self_attention import ResidualSelfAttention


@dataclass(frozen=True)
class AttentionWeights:
    """Attention weights of a batch; rows and columns of padding are 0.

    Each row attends to the columns and sums to 1. Position 0 of contexts and questions is the null
    token. A row of trilinear self-attention sums to less than 1: its learned logit for "nothing"
    takes the rest.
    """

    context_to_question: Tensor  # (B, T, J)
    question_to_context: Tensor  # (B, 1, T) in the paper's form, (B, J, T) in the starter's
    self_attention: Tensor | None  # (B, T, T); None for a variant without it


@torch.no_grad()
def attention_weights(model: BiDAF, batch: Batch) -> AttentionWeights:
    """Attention weights of the model for a batch, without dropout."""
    model.eval()
    read = _, _, context_mask, question_mask = model.read(batch)
    to_question, to_context = model.attention.weights(*read)
    rows = context_mask.real.unsqueeze(2)
    if model.config.query_to_context == "starter":
        to_context = to_context * question_mask.real.unsqueeze(2)
    self_attention = _self_attention(model, model.attention(*read), context_mask)
    if self_attention is not None:
        self_attention = self_attention * rows
    return AttentionWeights(to_question * rows, to_context, self_attention)


def _self_attention(model: BiDAF, attention: Tensor, mask: Mask) -> Tensor | None:
    """G (B, T, 8d), (B, T) -> (B, T, T)"""
    if model.matching is not None:
        return model.matching.weights(attention, mask)
    if isinstance(model.modeling, ResidualSelfAttention):
        _, m = model.modeling.read(attention, mask)
        return model.modeling.weights(m, mask)
    return None
