"""Joins several sets of word vectors side by side."""

from collections.abc import Sequence

import numpy as np

from tasks.embeddings.formats.word_vectors import WordSet
from tasks.text.vocabulary import word_of


def join(parts: Sequence[WordSet]) -> WordSet:
    """All words of the sets; a word's vector is that of each set followed by 1, or zeros for a set
    that lacks the word: (words, Σ(d_i + 1)). A set that has it with plain quotes or dashes only has
    the word, as when tokens are looked up.

    Words are in the order of their best place in any set, so that the start has the frequent words
    of all sets.
    """
    places: dict[str, int] = {}
    for part in parts:
        for word, row in part.rows.items():
            places[word] = min(row, places.get(word, row))
    words = sorted(places, key=places.__getitem__)
    blocks = []
    for part in parts:
        keys = (word_of(word, part.rows, lower_case=False) for word in words)
        known = [(row, part.rows[key]) for row, key in enumerate(keys) if key in part.rows]
        rows, part_rows = np.array(known, np.int64).reshape(-1, 2).T
        block = np.zeros((len(words), part.vectors.shape[1] + 1), np.float32)
        block[rows, :-1], block[rows, -1] = part.vectors[part_rows], 1
        blocks.append(block)
    return WordSet(words, np.concatenate(blocks, axis=1))
