"""A small language model, and a corpus in which each word determines its neighbours."""

import numpy as np

from models.language_model.characters import border_ids, encode_words
from models.language_model.config import BiLMConfig
from models.language_model.corpus import BORDER, Corpus

CONFIG = BiLMConfig(((1, 4), (2, 4), (3, 8)), 1, 16, 16, character_size=4)
WORDS = ["ant", "bee", "cat", "dog", "elk", "a-word-of-more-than-eight-bytes"]


def cyclic_corpus(paragraphs: int = 300, seed: int = 0) -> Corpus:
    """Paragraphs of 4 to 8 words, each of which follows the list from a random word on."""
    rng = np.random.default_rng(seed)
    forward, backward = [], []
    for _ in range(paragraphs):
        words = (rng.integers(len(WORDS)) + np.arange(rng.integers(4, 9))) % len(WORDS) + 1
        forward += [BORDER, *words]
        backward += [BORDER, *words[::-1]]
    return Corpus(
        np.array(forward, np.int32),
        np.array(backward, np.int32),
        np.concatenate([border_ids()[:1], encode_words(WORDS)]),
        border_ids()[1],
        np.array([BORDER, *range(2, 2 + len(WORDS))], np.int32),
    )
