"""ELMo's character ids: a word is its UTF-8 bytes between two marks, padded to 50 ids.

Source: Peters et al. (2018), and the ids of the released models: bytes 0 to 255, then the marks.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

CHARACTERS = 261  # distinct ids
WIDTH = 50  # ids of a word
SENTENCE_START, SENTENCE_END, WORD_START, WORD_END, PADDING = range(256, CHARACTERS)
CharacterIds = npt.NDArray[np.int16]


def encode_words(words: Sequence[str]) -> CharacterIds:
    """The character ids of each word, (words, 50). Bytes after the 48th are cut off."""
    ids = np.full((len(words), WIDTH), PADDING, np.int16)
    for row, word in zip(ids, words, strict=True):
        _fill(row, word.encode()[: WIDTH - 2])
    return ids


def border_ids() -> CharacterIds:
    """The character ids of a sentence's start and of its end, (2, 50)."""
    ids = np.full((2, WIDTH), PADDING, np.int16)
    _fill(ids[0], [SENTENCE_START])
    _fill(ids[1], [SENTENCE_END])
    return ids


def _fill(row: CharacterIds, characters: bytes | list[int]) -> None:
    row[: len(characters) + 2] = [WORD_START, *characters, WORD_END]
