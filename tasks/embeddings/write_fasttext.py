"""Writes fastText's own .bin, by which other tools, too, spell vectors of words never seen."""

import struct
from typing import IO

import numpy as np

from tasks.embeddings.read_fasttext import MAGIC, SETTINGS
from tasks.embeddings.wordset import FloatArray, Subwords, WordSet, own_row

OF_TRAINING = {
    **{"window": 5, "epochs": 5, "min_count": 1, "negatives": 5},
    **{"word_ngrams": 1, "loss": 2, "model": 2, "update_rate": 100},
}
"""fastText's own values, of skip-gram with negatives: who reads vectors makes no use of them."""
COUNT, SAMPLE = 1, 1e-4  # how often each word is said to occur, and how frequent ones are thinned


def write_fasttext(out: IO[bytes], chosen: WordSet) -> None:
    """Write a set that has n-grams: its words, their own rows, the n-grams, and an output layer,
    which only training reads, of zeros."""
    assert chosen.subwords is not None
    words, dimension = chosen.vectors.shape
    buckets, shortest, longest = chosen.subwords.kind
    of_set = {"dimension": dimension, "buckets": buckets}
    settings = OF_TRAINING | of_set | {"min_ngram": shortest, "max_ngram": longest}
    out.write(MAGIC + struct.pack("<i12id", 12, *(settings[name] for name in SETTINGS), SAMPLE))
    out.write(struct.pack("<iiiqq", words, words, 0, COUNT * words, -1))
    for word in chosen.words:
        out.write(word.encode() + struct.pack("<xqb", COUNT, 0))
    out.write(struct.pack("<?qq", False, words + buckets, dimension))
    for word, vector in zip(chosen.words, chosen.vectors, strict=True):
        out.write(_own_row(word, vector, chosen.subwords).astype("<f4").tobytes())
    out.write(np.ascontiguousarray(chosen.subwords.ngrams, "<f4").data)
    out.write(struct.pack("<?qq", False, words, dimension))
    for _ in range(words):
        out.write(bytes(4 * dimension))


def _own_row(word: str, vector: FloatArray, subwords: Subwords) -> FloatArray:
    rows = subwords.buckets(word) if word != "</s>" else []  # fastText spells no end of line
    return own_row(vector, subwords.ngrams[rows])
