"""Each block against its formula, written as loops or taken from PyTorch, in double precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.config import CharacterConfig, QueryToContext
from models.layers import (
    MASKED,
    AttentionFlow,
    BiLSTM,
    CharacterCNN,
    Dropout,
    Encoder,
    Highway,
    SpanOutput,
    _reversed,
    masked_softmax,
    reversal_index,
)

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)
SEEDS = st.integers(0, 10_000)
SIZES = st.integers(1, 4)
FORMS: list[QueryToContext] = ["starter", "max"]

few = settings(max_examples=30)


def make_mask(lengths: Sequence[int], extra: int = 0) -> Tensor:
    """(B, longest + extra), True at each row's first `length` positions."""
    return torch.arange(max(lengths) + extra) < torch.tensor(lengths).unsqueeze(1)


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def check_gradients(module: nn.Module, *inputs: Tensor) -> None:
    """Gradients by the weights and by the inputs, against finite differences."""
    names = [name for name, _ in module.named_parameters()]

    def run(*tensors: Tensor) -> Tensor:
        weights = dict(zip(names, tensors, strict=False))
        out: Tensor = torch.func.functional_call(module, weights, tensors[len(names) :])
        return out

    floating = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    assert torch.autograd.gradcheck(run, (*module.parameters(), *floating))


# Character CNN


def convolved(cnn: CharacterCNN, word: list[int]) -> Tensor:
    """max over windows of ReLU(bias + Σ kernel · characters), one word, one filter at a time."""
    kernel, bias = cnn.convolution.weight, cnn.convolution.bias
    filters, size, width = kernel.shape
    zero = torch.zeros(size, dtype=torch.float64)
    vectors = [cnn.embedding.weight[c] for c in word]
    vectors += [zero] * (width - len(word))
    features = []
    for f in range(filters):
        windows = []
        for first in range(len(vectors) - width + 1):
            products = [kernel[f, :, k] @ vectors[first + k] for k in range(width)]
            windows.append(torch.relu(bias[f] + sum(products)))
        features.append(max(windows))
    return torch.stack(features)


def padded_words(words: list[list[int]], extra: int = 0) -> Tensor:
    width = max(map(len, words)) + extra
    return torch.tensor([word + [0] * (width - len(word)) for word in words])


def make_cnn(kernel: int, size: int = 3, filters: int = 4, seed: int = 0) -> CharacterCNN:
    torch.manual_seed(seed)
    config = CharacterConfig(size, filters, kernel, max_characters=16)
    return CharacterCNN(9, config).double()


@few
@given(
    words=st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=9), min_size=1, max_size=4),
    kernel=st.integers(1, 6),
    size=SIZES,
    filters=SIZES,
    extra=st.integers(0, 7),
    seed=SEEDS,
)
def test_character_cnn(
    words: list[list[int]], kernel: int, size: int, filters: int, extra: int, seed: int
) -> None:
    cnn = make_cnn(kernel, size, filters, seed)
    expected = torch.stack([convolved(cnn, word) for word in words])
    assert_close(cnn(padded_words(words)), expected)
    assert_close(cnn(padded_words(words, extra)), expected)


def test_character_cnn_of_a_word_of_one_character_and_of_one_of_300() -> None:
    cnn = make_cnn(kernel=5)
    words = [[7], [1 + i % 8 for i in range(300)]]
    assert_close(cnn(padded_words(words)), torch.stack([convolved(cnn, w) for w in words]))
    assert_close(cnn(padded_words(words[:1])), convolved(cnn, words[0]).unsqueeze(0))


def test_character_cnn_sees_no_window_that_only_holds_padding() -> None:
    """Such a window would give ReLU(bias): 100 here, above what any real one gives."""
    cnn = make_cnn(kernel=2, size=1, filters=1)
    with torch.no_grad():
        cnn.embedding.weight[1:] = -1.0
        cnn.convolution.weight.fill_(30.0)
        cnn.convolution.bias.fill_(100.0)
    assert cnn(torch.tensor([[1, 1, 1, 0, 0, 0]])).tolist() == [[40.0]]


def test_character_cnn_gradients() -> None:
    """By every weight but the padding's vector, which is a constant 0."""
    cnn = make_cnn(kernel=3)
    words = padded_words([[1, 2, 3, 4, 5], [6], [7, 8]])
    kernel, bias = cnn.convolution.weight, cnn.convolution.bias
    vectors = cnn.embedding.weight.detach()[1:].clone().requires_grad_()

    def run(vectors: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        weights = {
            "embedding.weight": torch.cat([torch.zeros_like(vectors[:1]), vectors]),
            "convolution.weight": kernel,
            "convolution.bias": bias,
        }
        out: Tensor = torch.func.functional_call(cnn, weights, (words,))
        return out

    assert torch.autograd.gradcheck(run, (vectors, kernel, bias))
    cnn(words).sum().backward()
    assert cnn.embedding.weight.grad[0].tolist() == [0.0, 0.0, 0.0]


# Highway


def test_highway_by_hand() -> None:
    highway = Highway(2).double()
    with torch.no_grad():
        for parameter in highway.parameters():
            parameter.zero_()
        highway.transforms[0].weight.copy_(torch.tensor([[1, 0], [0, -1]]))
        highway.transforms[1].weight.copy_(torch.tensor([[0, 1], [1, 0]]))
        highway.transforms[1].bias.copy_(torch.tensor([1, -1]))
        highway.gates[1].bias.fill_(math.log(3))
    # First: t = ½ and g = (2, 0), so ½·(2, 0) + ½·(2, 4) = (2, 2).
    # Second: t = ¾ and g = (3, 1), so ¾·(3, 1) + ¼·(2, 2) = (2.75, 1.25).
    found = highway(torch.tensor([[[2.0, 4.0]]], dtype=torch.float64))
    assert_close(found, torch.tensor([[[2.75, 1.25]]], dtype=torch.float64))


@few
@given(size=SIZES, layers=st.integers(1, 3), seed=SEEDS)
def test_highway(size: int, layers: int, seed: int) -> None:
    torch.manual_seed(seed)
    highway = Highway(size, layers).double()
    x = drawn(seed, 3, size)
    expected = x.tolist()
    for transform, gate in zip(highway.transforms, highway.gates, strict=True):
        for row, old in enumerate(expected):
            new = []
            for i in range(size):
                h = sum(transform.weight[i, k].item() * old[k] for k in range(size))
                g = sum(gate.weight[i, k].item() * old[k] for k in range(size))
                t = 1 / (1 + math.exp(-(g + gate.bias[i].item())))
                new.append(t * max(0.0, h + transform.bias[i].item()) + (1 - t) * old[i])
            expected[row] = new
    assert_close(highway(x), torch.tensor(expected, dtype=torch.float64))


# BiLSTM


def packed(layers: Sequence[BiLSTM], x: Tensor, lengths: list[int]) -> Tensor:
    """PyTorch's own bidirectional LSTM over packed sequences, with the layers' weights."""
    hidden = layers[0].ahead.hidden_size
    reference = nn.LSTM(
        x.shape[2], hidden, len(layers), batch_first=True, bidirectional=True
    ).double()
    with torch.no_grad():
        for i, layer in enumerate(layers):
            for suffix, lstm in (("", layer.ahead), ("_reverse", layer.back)):
                for name, weight in lstm.named_parameters():
                    own = name.replace("l0", f"l{i}") + suffix
                    getattr(reference, own).copy_(weight)
    sequence = pack_padded_sequence(x, torch.tensor(lengths), True, enforce_sorted=False)
    out, _ = pad_packed_sequence(reference(sequence)[0], True, total_length=x.shape[1])
    return out


@few
@given(lengths=LENGTHS, extra=st.integers(0, 3), size=SIZES, hidden=SIZES, seed=SEEDS)
def test_bilstm_is_the_packed_one(
    lengths: list[int], extra: int, size: int, hidden: int, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = BiLSTM(size, hidden).double()
    mask = make_mask(lengths, extra)
    x = drawn(seed, *mask.shape, size)
    assert_close(layer(x, mask), packed([layer], x, lengths))


@few
@given(lengths=LENGTHS, layers=st.integers(1, 3), seed=SEEDS)
def test_encoder_is_a_stack(lengths: list[int], layers: int, seed: int) -> None:
    torch.manual_seed(seed)
    encoder = Encoder(3, 2, layers, dropout=0.5).double().eval()
    mask = make_mask(lengths, 1)
    x = drawn(seed, *mask.shape, 3)
    assert_close(encoder(x, mask), packed(list(encoder.layers), x, lengths))


def test_encoder_drops_behind_its_only_layer() -> None:
    """PyTorch's own LSTM ignores `dropout` on its last layer, and so on a single one."""
    encoder = Encoder(3, 64, 1, dropout=0.5)
    out = encoder(torch.randn(4, 50, 3), torch.ones(4, 50, dtype=torch.bool))
    assert (out == 0).double().mean().item() == pytest.approx(0.5, abs=0.03)


def test_encoder_drops_between_its_layers() -> None:
    encoder = Encoder(3, 64, 2, dropout=0.5)
    read: list[Tensor] = []
    encoder.layers[1].register_forward_pre_hook(lambda layer, inputs: read.append(inputs[0]))
    encoder(torch.randn(4, 50, 3), torch.ones(4, 50, dtype=torch.bool))
    assert (read[0] == 0).double().mean().item() == pytest.approx(0.5, abs=0.03)


@given(lengths=LENGTHS, extra=st.integers(0, 2))
def test_reversal_keeps_padding_in_place(lengths: list[int], extra: int) -> None:
    mask = make_mask(lengths, extra)
    x = torch.arange(mask.numel(), dtype=torch.float64).view(*mask.shape, 1)
    expected = []
    for row, length in zip(x.squeeze(2).tolist(), lengths, strict=True):
        expected.append(row[:length][::-1] + row[length:])
    found = _reversed(x, reversal_index(mask))
    assert found.squeeze(2).tolist() == expected


def test_reversal_and_bilstm_gradients() -> None:
    mask = make_mask([4, 1, 3], extra=1)
    x = drawn(0, 3, 5, 2).requires_grad_()
    index = reversal_index(mask)
    assert torch.autograd.gradcheck(lambda x: _reversed(x, index), (x,))
    check_gradients(BiLSTM(2, 2).double(), x.detach(), mask)


# Attention


def make_attention(size: int, form: QueryToContext, seed: int) -> AttentionFlow:
    torch.manual_seed(seed)
    attention = AttentionFlow(size, form, dropout=0.5).double().eval()
    nn.init.normal_(attention.bias)
    return attention


def softmax(logits: list[Tensor]) -> list[Tensor]:
    exponentials = [math.e**x for x in logits]
    return [e / sum(exponentials) for e in exponentials]


def attended(attention: AttentionFlow, context: Tensor, question: Tensor) -> Tensor:
    """G of one example without padding, by w·[h; u; h∘u] and plain loops."""
    w = torch.cat(
        [
            attention.context_weight.flatten(),
            attention.question_weight.flatten(),
            attention.product_weight.flatten(),
        ]
    )
    s = [[w @ torch.cat([h, u, h * u]) + attention.bias[0] for u in question] for h in context]
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
def test_attention_flow(
    lengths: list[tuple[int, int]], extra: int, size: int, form: QueryToContext, seed: int
) -> None:
    attention = make_attention(size, form, seed)
    context_mask = make_mask([t for t, _ in lengths], extra)
    question_mask = make_mask([j for _, j in lengths], extra)
    # Padding that would win every maximum and every softmax if it were seen.
    context = drawn(seed, *context_mask.shape, size).masked_fill(~context_mask[..., None], 50.0)
    question = drawn(seed + 1, *question_mask.shape, size)
    question = question.masked_fill(~question_mask[..., None], -50.0)
    found = attention(context, question, context_mask, question_mask)
    for b, (t, j) in enumerate(lengths):
        assert_close(found[b, :t], attended(attention, context[b, :t], question[b, :j]))


@pytest.mark.parametrize("form", FORMS)
def test_attention_gradients(form: QueryToContext) -> None:
    masks = make_mask([3, 2]), make_mask([1, 2])
    check_gradients(make_attention(2, form, 0), drawn(0, 2, 3, 2), drawn(1, 2, 2, 2), *masks)


def test_dropout_in_attention_reaches_the_similarity_alone() -> None:
    attention = make_attention(64, "max", 0)
    context, question = drawn(0, 2, 30, 64), drawn(1, 2, 9, 64)
    masks = torch.ones(2, 30, dtype=torch.bool), torch.ones(2, 9, dtype=torch.bool)
    still = attention.similarity(context, question)
    attention.train()
    assert not torch.allclose(attention.similarity(context, question), still)
    assert_close(attention(context, question, *masks)[..., :64], context)


@given(
    mask=st.lists(st.booleans(), min_size=1, max_size=6).filter(any),
    seed=SEEDS,
    scale=st.sampled_from([1.0, 300.0]),
)
def test_masked_softmax(mask: list[bool], seed: int, scale: float) -> None:
    logits = drawn(seed, len(mask)) * scale
    keep = torch.tensor(mask)
    found = masked_softmax(logits, keep, 0)
    assert found[~keep].tolist() == [0.0] * mask.count(False)
    assert_close(found[keep], torch.softmax(logits[keep], 0))


def test_masked_softmax_gradients() -> None:
    mask = make_mask([3, 1], extra=1)
    logits = drawn(0, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: masked_softmax(x, mask, 1), (logits,))


# Output


@few
@given(lengths=LENGTHS, extra=st.integers(0, 2), size=SIZES, hidden=SIZES, seed=SEEDS)
def test_span_output(lengths: list[int], extra: int, size: int, hidden: int, seed: int) -> None:
    torch.manual_seed(seed)
    output = SpanOutput(size, hidden, dropout=0.5).double().eval()
    mask = make_mask(lengths, extra)
    g, m = drawn(seed, *mask.shape, size), drawn(seed + 1, *mask.shape, 2 * hidden)
    again = packed(list(output.encoder.layers), m, lengths)
    expected = torch.full((2, *mask.shape), MASKED, dtype=torch.float64)
    for b, length in enumerate(lengths):
        for t in range(length):
            expected[0, b, t] = output.start_attention(g[b, t]) + output.start_modeling(m[b, t])
            expected[1, b, t] = output.end_attention(g[b, t]) + output.end_modeling(again[b, t])
    assert_close(torch.stack(output(g, m, mask)), expected)


def test_span_output_gradients() -> None:
    mask = make_mask([3, 1], extra=1)
    check_gradients(
        SpanOutput(2, 2, dropout=0.0).double(), drawn(0, 2, 4, 2), drawn(1, 2, 4, 4), mask
    )


# Dropout


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 0.9])
def test_dropout_drops_at_its_rate_and_keeps_the_mean(rate: float) -> None:
    torch.manual_seed(0)
    out = Dropout(rate)(torch.ones(1000, 401))
    assert (out == 0).double().mean().item() == pytest.approx(rate, abs=1 / 256)
    assert out.double().mean().item() == pytest.approx(1, abs=0.02)
    assert len(out.unique()) == 2


def test_dropout_is_off_in_evaluation_and_at_rate_0() -> None:
    x = torch.randn(3, 5)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_dropout_follows_the_seed() -> None:
    x, dropout = torch.ones(40, 7), Dropout(0.5)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


def test_dropout_gradient_passes_where_the_value_did() -> None:
    x = torch.ones(50, 11, requires_grad=True)
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 0), (5, 2, 9)])
def test_dropout_keeps_any_shape(shape: tuple[int, ...]) -> None:
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("threshold", [1, 16, 128, 192])
def test_each_byte_of_a_draw_is_uniform(threshold: int) -> None:
    """Eight elements share a draw of 64 bits: each of the eight must drop as often as the rest."""
    torch.manual_seed(1)
    draws = 100_000
    dropped = Dropout(threshold / 256)(torch.ones(draws, 8)) == 0
    expected = threshold / 256
    deviation = math.sqrt(expected * (1 - expected) / draws)
    rates = dropped.double().mean(0)
    assert (rates - expected).abs().max().item() < 5 * deviation


def test_elements_of_one_draw_are_dropped_independently() -> None:
    torch.manual_seed(2)
    dropped = (Dropout(0.5)(torch.ones(100_000, 8)) == 0).double()
    correlations = torch.corrcoef(dropped.T) - torch.eye(8)
    assert correlations.abs().max().item() < 5 / math.sqrt(100_000)
