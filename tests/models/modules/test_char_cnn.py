"""The character CNN, compared with its formula in plain loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from models.configs.variant import CharacterConfig
from models.modules.char_cnn import CharacterCNN
from models.modules.layers import Dropout
from tests.factories.blocks import SEEDS, SIZES, assert_close, few


def convolved(cnn: CharacterCNN, word: list[int]) -> Tensor:
    """One word's features: per filter, max over windows of ReLU(bias + Σ kernel · characters)."""
    features = []
    for convolution in cnn.convolutions:
        kernel, bias = convolution.weight, convolution.bias
        filters, size, width = kernel.shape
        vectors = [cnn.embedding.weight[c] for c in word]
        vectors += [torch.zeros(size, dtype=torch.float64)] * (width - len(word))
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


def make_cnn(
    *kernels: int, size: int = 3, filters: int = 4, seed: int = 0, dropout: float = 0.0
) -> CharacterCNN:
    """A CNN with `filters` filters of the first width, and one more for each further width."""
    torch.manual_seed(seed)
    numbers = tuple(filters + i for i in range(len(kernels)))
    config = CharacterConfig(size, kernels, numbers, max_characters=16)
    return CharacterCNN(9, config, Dropout(dropout)).double()


@few
@given(
    words=st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=9), min_size=1, max_size=4),
    kernels=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    size=SIZES,
    filters=SIZES,
    extra=st.integers(0, 7),
    seed=SEEDS,
)
def test_character_cnn_matches_reference(
    words: list[list[int]], kernels: list[int], size: int, filters: int, extra: int, seed: int
) -> None:
    cnn = make_cnn(*kernels, size=size, filters=filters, seed=seed)
    expected = torch.stack([convolved(cnn, word) for word in words])
    assert_close(cnn(padded_words(words)), expected)
    assert_close(cnn(padded_words(words, extra)), expected)


ABSURDITY = [  # one row per dimension, one column per letter
    [0.4, -0.8, 2.2, 0.1, 0.5, -0.4, 0.4, -0.4, 0.1],
    [0.1, 1.2, 1.5, -0.8, -1.5, 0.2, 0.1, 1.2, 0.7],
    [0.2, 0.1, -1.2, 0.2, -0.2, 0.3, 0.2, -1.3, -0.1],
    [-0.2, -0.5, 0.1, 0.2, -0.3, 0.3, -0.1, 1.0, -0.3],
]
KERNEL = [[-0.1, 0.5, 2.2], [0.7, 0.9, 0.3], [-0.2, -0.2, 0.7], [1.3, -0.1, -1.1]]


def test_character_cnn_matches_published_example() -> None:
    """The matrices of "The Definitive Guide to BiDAF", part 2, give f = [4.78, 2.83, …].

    The word's feature is therefore 4.78. The scalars 0.1 and 0.7 printed beside the matrices do
    not follow from them.
    """
    letters = torch.tensor(ABSURDITY, dtype=torch.float64).T
    cnn = CharacterCNN(10, CharacterConfig(4, (3,), (1,)), nn.Identity()).double()
    with torch.no_grad():
        cnn.embedding.weight[1:] = letters
        cnn.convolutions[0].weight.copy_(torch.tensor([KERNEL], dtype=torch.float64))
        cnn.convolutions[0].bias.zero_()
    word = torch.arange(1, 10).unsqueeze(0)
    windows = cnn.convolutions[0](letters.T.unsqueeze(0))
    assert windows.shape == (1, 1, 9 - 3 + 1)
    assert_close(windows[0, 0, :2], torch.tensor([4.78, 2.83], dtype=torch.float64))
    assert_close(cnn(word), torch.tensor([[4.78]], dtype=torch.float64))


def test_dropout_applies_to_character_embeddings() -> None:
    cnn = make_cnn(1, size=50, filters=1, dropout=0.5)
    read: list[Tensor] = []
    cnn.convolutions[0].register_forward_pre_hook(lambda layer, inputs: read.append(inputs[0]))
    cnn(torch.full((40, 10), 3))
    assert (read[0] == 0).double().mean().item() == pytest.approx(0.5, abs=0.03)


def test_ignores_windows_of_padding_only() -> None:
    """A window of padding alone would give ReLU(bias) = 100, more than any real window gives."""
    cnn = make_cnn(2, size=1, filters=1)
    with torch.no_grad():
        cnn.embedding.weight[1:] = -1.0
        cnn.convolutions[0].weight.fill_(30.0)
        cnn.convolutions[0].bias.fill_(100.0)
    assert cnn(torch.tensor([[1, 1, 1, 0, 0, 0]])).tolist() == [[40.0]]
