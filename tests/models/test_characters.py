"""The character CNN against the formula, written as loops or taken from PyTorch."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.characters import CharacterCNN
from models.config import CharacterConfig
from tests.models.checking import (
    SEEDS,
    SIZES,
    assert_close,
    few,
)


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
