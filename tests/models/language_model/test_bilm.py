"""The layers of a language model trained here: exact in batches, and different in each sentence."""

import numpy as np
import torch

from models.language_model.bilm import BiLM, embed
from tests.factories.language_models import CONFIG

SENTENCES = [
    ["I", "ate", "a", "club", "sandwich", "."],
    [
        "She",
        "broke",
        "her",
        "golf",
        "club",
        "yesterday",
        "night",
        "at",
        "the",
        "lake",
        ",",
        "of",
        "all",
        "places",
        ".",
    ],
    ["club"],
]


def model() -> BiLM:
    torch.manual_seed(1)
    return BiLM(CONFIG).eval()


def test_batched_and_single_vectors_are_equal() -> None:
    bilm = model()
    together, _ = embed(bilm, SENTENCES)
    for sentence, vectors in zip(SENTENCES, together, strict=True):
        assert vectors.shape == (3, len(sentence), CONFIG.vector_size)
        (alone,), _ = embed(bilm, [sentence])
        np.testing.assert_allclose(vectors, alone, atol=1e-6, rtol=0)


def test_layers_above_0_depend_on_the_sentence() -> None:
    first, second, _ = embed(model(), SENTENCES)[0]
    sandwich, golf = first[:, 3], second[:, 4]
    np.testing.assert_allclose(sandwich[0], golf[0], atol=1e-6)
    half = CONFIG.projection_size
    np.testing.assert_array_equal(sandwich[0, :half], sandwich[0, half:])
    for layer in (1, 2):
        assert np.abs(sandwich[layer] - golf[layer]).max() > 0.01


def test_each_direction_sees_only_its_side() -> None:
    half = CONFIG.projection_size
    (one,), _ = embed(model(), [["the", "old", "club", "closed"]])
    (other,), _ = embed(model(), [["the", "old", "club", "opened"]])
    np.testing.assert_allclose(one[:, :3, :half], other[:, :3, :half], atol=1e-6)
    assert np.abs(one[1:, 2, half:] - other[1:, 2, half:]).max() > 1e-3


def test_state_carries_over() -> None:
    bilm = model()
    (fresh,), states = embed(bilm, SENTENCES[:1])
    (after,), _ = embed(bilm, SENTENCES[:1], states)
    assert np.abs(after[1:] - fresh[1:]).max() > 1e-3
