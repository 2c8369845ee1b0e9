"""Tiny examples and models for the tests of models/."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from models.batching import Examples, Ragged, Types
from models.bidaf import BiDAF
from models.configs.presets import PRESETS
from models.configs.variant import CharacterConfig, VariantConfig
from models.token_layers import TokenLayers

WORDS = 40
VECTOR_SIZE = 6
CHARACTERS = 20
LAYERS_SHAPE = (3, 4)  # of contextual vectors


def make_types(seed: int = 0, longest: int = 10) -> Types:
    """A type for each word, with 1 to `longest` random characters."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, longest + 1, WORDS - 2)
    character_rows = [random.integers(2, CHARACTERS, length).tolist() for length in lengths]
    return Types(np.arange(WORDS, dtype=np.int32), Ragged.from_rows([[], [1], *character_rows]))


def make_examples(
    contexts: Sequence[int], questions: Sequence[int] | None = None, seed: int = 0
) -> Examples:
    """Examples with contexts and questions of the given lengths and with random targets and
    contextual layers; every fourth example has no answer."""
    random = np.random.default_rng(seed)
    n = len(contexts)
    questions = questions if questions is not None else [3] * n
    impossible = np.arange(n) % 4 == 3
    start = np.array([random.integers(0, length) for length in contexts])
    end = np.minimum(start + random.integers(0, 3, n), np.array(contexts) - 1)
    return Examples(
        contexts=Ragged.from_rows([random.integers(2, WORDS, c).tolist() for c in contexts]),
        questions=Ragged.from_rows([random.integers(2, WORDS, q).tolist() for q in questions]),
        context_of=np.arange(n),
        span_start=np.where(impossible, -1, start),
        span_end=np.where(impossible, -1, end),
        impossible=impossible,
        context_layers=make_layers(contexts, seed),
        question_layers=make_layers(questions, seed + 1),
    )


def make_layers(lengths: Sequence[int], seed: int = 0) -> TokenLayers:
    """Random contextual layers for rows of the given lengths."""
    random = np.random.default_rng(seed)
    texts = [random.standard_normal((n, *LAYERS_SHAPE)).astype(np.float32) for n in lengths]
    return TokenLayers.of_texts(texts, np.arange(len(texts)))


def small(name: str, **changes: object) -> VariantConfig:
    """A preset reduced to sizes that suit the tests' small vocabulary, with one rate of dropout."""
    variant = PRESETS[name].with_changes(**{"hidden_size": 6, "batch_size": 4, **changes})
    if variant.model.contextual is not None and "contextual" not in changes:
        contextual = replace(variant.model.contextual, dropout=variant.model.dropout)
        variant = variant.with_changes(contextual=contextual)
    if variant.model.characters is None:
        return variant
    widths = tuple(min(width, 3) for width in variant.model.characters.kernel_widths)
    return variant.with_changes(characters=CharacterConfig(4, widths, (5,) * len(widths), 8))


def make_model(
    variant: VariantConfig,
    seed: int = 0,
    scale: float = 1.0,
    layers_shape: tuple[int, int] = LAYERS_SHAPE,
) -> BiDAF:
    """A model of the variant. The word vectors are always the same; the seed draws the weights.

    A scale above 1 enlarges the weights, so that answers differ between examples.
    """
    vectors = torch.randn(WORDS, VECTOR_SIZE, generator=torch.Generator().manual_seed(0))
    vectors[:2] = 0
    torch.manual_seed(seed)
    model = BiDAF(variant.model, vectors, CHARACTERS, layers_shape=layers_shape)
    with torch.no_grad():
        for weight in model.parameters():
            weight *= scale
    return model
