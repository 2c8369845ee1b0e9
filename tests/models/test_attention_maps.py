"""Attention weights of whole models: those of the forward pass, and 0 at padding."""

import numpy as np
import pytest
import torch
from torch import Tensor

from models.attention_maps import AttentionWeights, attention_weights
from models.batching import make_batch
from models.bidaf import BiDAF
from models.configs.presets import PRESETS
from models.modules.self_attention import ResidualSelfAttention
from tests.factories.models import make_examples, make_model, make_types, small

LENGTHS, QUESTIONS = [5, 9, 1], [4, 2, 6]
EXAMPLES, TYPES = make_examples(LENGTHS, QUESTIONS), make_types()
all_presets = pytest.mark.parametrize("name", PRESETS)


def weights(model: BiDAF, rows: list[int]) -> AttentionWeights:
    batch = make_batch(EXAMPLES, TYPES, np.array(rows), model.max_characters)
    return attention_weights(model, batch)


def trimmed(maps: AttentionWeights, row: int, t: int, j: int) -> list[Tensor]:
    """An example's weights without padding; asserts that padding has weight 0."""
    queries = min(j, maps.question_to_context.shape[1])
    parts = [(maps.context_to_question[row], t, j), (maps.question_to_context[row], queries, t)]
    if maps.self_attention is not None:
        parts.append((maps.self_attention[row], t, t))
    for matrix, height, width in parts:
        assert matrix[height:].eq(0).all()
        assert matrix[:, width:].eq(0).all()
    return [matrix[:height, :width] for matrix, height, width in parts]


@all_presets
def test_attention_maps_ignore_padding_and_batching(name: str) -> None:
    model = make_model(small(name), scale=3.0)
    together = weights(model, [0, 1, 2])
    for row, (context, question) in enumerate(zip(LENGTHS, QUESTIONS, strict=True)):
        matrices = trimmed(together, row, context + 1, question + 1)
        alone = trimmed(weights(model, [row]), 0, context + 1, question + 1)
        for matrix, single in zip(matrices, alone, strict=True):
            torch.testing.assert_close(matrix, single)
        for matrix in matrices[:2]:
            torch.testing.assert_close(matrix.sum(1), torch.ones(len(matrix)))
        if name == "docqa":
            assert matrices[2].sum(1).lt(1).all()
            assert matrices[2].diagonal().eq(0).all()
        elif len(matrices) == 3:
            torch.testing.assert_close(matrices[2].sum(1), torch.ones(context + 1))


@all_presets
def test_attention_maps_reproduce_the_forward_pass(name: str) -> None:
    model = make_model(small(name), scale=3.0).eval()
    batch = make_batch(EXAMPLES, TYPES, np.arange(3), model.max_characters)
    actual = attention_weights(model, batch)
    context, question, mask, _ = read = model.read(batch)
    g = model.attention(*read)
    attended = actual.question_to_context @ context
    if model.config.query_to_context == "starter":
        attended = actual.context_to_question @ attended
    expected = [actual.context_to_question @ question, context * attended]
    for part, rebuilt in zip(g.chunk(4, 2)[1::2], expected, strict=True):
        torch.testing.assert_close(part[mask.real], rebuilt[mask.real])
    if model.matching is not None:
        assert actual.self_attention is not None
        matched = model.matching.encoder(torch.cat([g, actual.self_attention @ g], 2), mask)
        torch.testing.assert_close(matched[mask.real], model.matching(g, mask)[mask.real])
    elif isinstance(model.modeling, ResidualSelfAttention):
        assert actual.self_attention is not None
        x, m = model.modeling.read(g, mask)
        c = actual.self_attention @ m
        merged = x + torch.relu(model.modeling.merging(torch.cat([c, m, c * m], 2)))
        torch.testing.assert_close(merged[mask.real], model.modeling(g, mask)[mask.real])
    else:
        assert actual.self_attention is None
