"""Attention, compared with its formula in plain loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from models.configs.variant import QueryToContext
from models.modules.attention import AttentionFlow
from models.modules.layers import Dropout
from tests.factories.blocks import (
    SEEDS,
    SIZES,
    assert_close,
    few,
    make_mask,
    random_tensor,
    softmax,
    trilinear,
)

FORMS: list[QueryToContext] = ["starter", "max"]


def make_attention(size: int, form: QueryToContext, seed: int) -> AttentionFlow:
    torch.manual_seed(seed)
    attention = AttentionFlow(size, form, Dropout(0.5)).double().eval()
    nn.init.normal_(attention.similarity.bias)
    return attention


def attended(attention: AttentionFlow, context: Tensor, question: Tensor) -> Tensor:
    """Reference G of one example without padding, from w·[h; u; h∘u] in plain loops."""
    s = trilinear(attention.similarity, context, question)
    rows = [softmax(row) for row in s]
    to_question = [sum(a * u for a, u in zip(row, question, strict=True)) for row in rows]
    if attention.query_to_context == "max":
        b = softmax([max(row) for row in s])
        h_tilde = sum(b_t * h for b_t, h in zip(b, context, strict=True))
        to_context = [h_tilde for _ in context]
    else:
        columns = [softmax(list(column)) for column in zip(*s, strict=True)]
        of_word = [sum(c * h for c, h in zip(column, context, strict=True)) for column in columns]
        to_context = [sum(a * v for a, v in zip(row, of_word, strict=True)) for row in rows]
    g = zip(context, to_question, to_context, strict=True)
    return torch.stack([torch.cat([h, u, h * u, h * c]) for h, u, c in g])


@few
@given(
    lengths=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=3),
    extra=st.integers(0, 2),
    size=SIZES,
    form=st.sampled_from(FORMS),
    seed=SEEDS,
)
def test_attention_flow_matches_reference(
    lengths: list[tuple[int, int]], extra: int, size: int, form: QueryToContext, seed: int
) -> None:
    attention = make_attention(size, form, seed)
    context_mask = make_mask([t for t, _ in lengths], extra)
    question_mask = make_mask([j for _, j in lengths], extra)
    # Padding that would dominate every maximum and every softmax if it were not masked.
    context = random_tensor(seed, *context_mask.real.shape, size).masked_fill(
        context_mask.padding[..., None], 50.0
    )
    question = random_tensor(seed + 1, *question_mask.real.shape, size)
    question = question.masked_fill(question_mask.padding[..., None], -50.0)
    actual = attention(context, question, context_mask, question_mask)
    for b, (t, j) in enumerate(lengths):
        assert_close(actual[b, :t], attended(attention, context[b, :t], question[b, :j]))


def test_dropout_affects_only_the_similarity() -> None:
    attention = make_attention(64, "max", 0)
    context, question = random_tensor(0, 2, 30, 64), random_tensor(1, 2, 9, 64)
    masks = make_mask([30, 30]), make_mask([9, 9])
    still = attention(context, question, *masks)
    attention.train()
    actual = attention(context, question, *masks)
    assert not torch.allclose(actual, still)
    assert_close(actual[..., :64], context)


@pytest.mark.parametrize("form", FORMS)
def test_initial_attention_aligns_equal_tokens(form: QueryToContext) -> None:
    attention = make_attention(200, form, 0)
    tokens = torch.randn(1, 12, 200, dtype=torch.float64)
    order = torch.randperm(12)
    mask = make_mask([12])
    to_question, _ = attention.weights(tokens, tokens[:, order], mask, mask)
    assert torch.equal(to_question[0].argmax(1), order.argsort())
