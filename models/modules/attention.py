"""Attention between context and question."""

import math

import torch
from torch import Tensor, nn

from models.configs.variant import QueryToContext
from models.modules.layers import MASKED, masked_softmax
from models.modules.mask import Mask


class TrilinearSimilarity(nn.Module):
    """w·[h; u; h∘u] + b for every h and u (Seo et al., 2017, eq. 1), computed as
    w1·h + w2·u + (h∘w3)·u, which never forms the (B, T, J, 3·size) tensor."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.context_weight = nn.Parameter(torch.empty(size, 1))
        self.question_weight = nn.Parameter(torch.empty(size, 1))
        self.product_weight = nn.Parameter(torch.empty(1, 1, size))
        for weight in (self.context_weight, self.question_weight, self.product_weight):
            nn.init.xavier_uniform_(weight)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, context: Tensor, question: Tensor) -> Tensor:
        """(B, T, size), (B, J, size) -> S (B, T, J)"""
        products = (context * self.product_weight) @ question.transpose(1, 2)
        of_context = context @ self.context_weight  # (B, T, 1)
        of_question = (question @ self.question_weight).transpose(1, 2)  # (B, 1, J)
        return products + of_context + of_question + self.bias


class AttentionFlow(nn.Module):
    """Bidirectional attention flow (Seo et al., 2017, §2 layer 4)."""

    def __init__(self, size: int, query_to_context: QueryToContext, dropout: nn.Module) -> None:
        """`dropout` applies to the inputs of the similarity only."""
        super().__init__()
        self.query_to_context = query_to_context
        self.dropout = dropout
        self.similarity = TrilinearSimilarity(size)
        # Attention starts with what context and question have in common, h·u, at about the weight
        # that training reaches (0.145 on average at size 200). If the weight is drawn around 0, as
        # in the original, every token first attends to all others equally, and training needs tens
        # of thousands of questions to change that. At 1, attention is too sharp and learns less.
        nn.init.constant_(self.similarity.product_weight, 2 / math.sqrt(size))

    def weights(
        self, context: Tensor, question: Tensor, context_mask: Mask, question_mask: Mask
    ) -> tuple[Tensor, Tensor]:
        """Attention weights of H (B, T, size) and U (B, J, size).

        The first are of each context token over the question (B, T, J). The second are over the
        context: of the whole question (B, 1, T) in the paper's form, of each question token
        (B, J, T) in the starter's.
        """
        s = self.similarity(self.dropout(context), self.dropout(question))
        of_tokens = s.masked_fill(question_mask.padding.unsqueeze(1), MASKED)
        over_question = torch.softmax(of_tokens, 2)
        if self.query_to_context == "max":
            best = of_tokens.amax(2)  # (B, T)
            return over_question, masked_softmax(best, context_mask.padding, 1).unsqueeze(1)
        over_context = masked_softmax(s, context_mask.padding.unsqueeze(2), 1)
        return over_question, over_context.transpose(1, 2)

    def forward(
        self, context: Tensor, question: Tensor, context_mask: Mask, question_mask: Mask
    ) -> Tensor:
        """H (B, T, size), U (B, J, size) -> G = [h; ũ; h∘ũ; h∘h̃] (B, T, 4·size)"""
        over_question, over_context = self.weights(context, question, context_mask, question_mask)
        attended_question = over_question @ question
        attended_context = over_context @ context  # (B, 1, size): the same for every t
        if self.query_to_context == "starter":  # (B, J, size) becomes (B, T, size)
            attended_context = over_question @ attended_context
        return torch.cat(
            [context, attended_question, context * attended_question, context * attended_context],
            2,
        )
