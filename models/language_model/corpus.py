"""A corpus as two streams of word ids: what a language model is trained on."""

from dataclasses import dataclass

from models.arrays import IntArray
from models.language_model.characters import CharacterIds

BORDER = 0  # id of a sentence's border in the streams; words follow, the most frequent first


@dataclass(frozen=True)
class Corpus:
    """The words of a corpus in reading order, for both directions, as arrays or memory maps.

    `backward` has the same sentences in the same order, each reversed. So the two windows
    of a step share most of their words, whose vectors are computed once.
    """

    forward: IntArray  # (words and borders,)
    backward: IntArray
    characters: CharacterIds  # (1 + distinct words, 50); row 0 is the start of a sentence
    border_end: CharacterIds  # (50,): the end of a sentence, where the backward direction starts
    classes: IntArray  # (1 + distinct words,): the softmax's class of each id
