"""Ranks the paragraphs of an article by their TF-IDF similarity to a question."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from models.arrays import FloatArray, IntArray
from tasks.text.tokenizer import tokenize


class TfIdf:
    """An inverted index of paragraphs, n in number.

    A word in d paragraphs has the weight count · (1 + log((1 + n) / (1 + d))), and similarity is
    the cosine of the angle between the weights of two texts.
    """

    def __init__(self, paragraphs: Sequence[str]) -> None:
        counts = [_word_counts(text) for text in paragraphs]
        rows = defaultdict[str, list[int]](list)
        for row, words in enumerate(counts):
            for word in words:
                rows[word].append(row)
        n = len(paragraphs)
        self._idf = {
            word: 1 + math.log((1 + n) / (1 + len(places))) for word, places in rows.items()
        }
        lengths = [math.hypot(*(count * self._idf[w] for w, count in c.items())) for c in counts]
        # For each word, the paragraphs that contain it and its weights there, both (d,).
        self._postings: dict[str, tuple[IntArray, FloatArray]] = {
            word: (
                np.array(places),
                np.array([counts[row][word] * self._idf[word] / lengths[row] for row in places]),
            )
            for word, places in rows.items()
        }
        self._size = n

    def ranking(self, question: str) -> list[int]:
        """All paragraphs, the most similar first; equally similar ones keep their order."""
        scores = np.zeros(self._size)
        for word, count in _word_counts(question).items():
            if word in self._postings:
                rows, weights = self._postings[word]
                scores[rows] += count * self._idf[word] * weights
        ranking: list[int] = np.argsort(-scores, kind="stable").tolist()
        return ranking


def _word_counts(text: str) -> Counter[str]:
    words = (text[start:end].casefold() for start, end in tokenize(text))
    return Counter(word for word in words if word[0].isalnum())
