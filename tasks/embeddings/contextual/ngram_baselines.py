"""Perplexities of a unigram and of a trigram model, beside those of a language model.

The trigram model is interpolated Kneser-Ney with one discount per order (Chen and Goodman, 1999,
"An empirical study of smoothing techniques for language modeling", section 4.1.6).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from models.arrays import FloatArray, IntArray
from models.language_model.config import LMTraining
from models.language_model.corpus import Corpus
from models.language_model.streams import Tracks

Keys = npt.NDArray[np.int64]
# That the n-gram models read. Their counts take some 50 bytes per word.
MOST_WORDS = 20_000_000


def ngram_perplexities(train: Corpus, held_out: Corpus, training: LMTraining) -> dict[str, float]:
    """The perplexities of the held-out text by both models, under MLflow's metric names.

    Both predict the same classes as the language model: words of its vocabulary, one class for all
    others, and the border of a paragraph. They learn from the words that the training reads: with
    `max_words`, the beginning of each of its tracks. Of longer trainings, they read `MOST_WORDS`.
    """
    limited = replace(training, max_words=min(training.max_words or MOST_WORDS, MOST_WORDS))
    read = Tracks(train, training.tracks, training.steps).read_by(limited)
    seen, unseen = (
        corpus.classes[ids].astype(np.int64)
        for corpus, ids in ((train, read), (held_out, held_out.forward))
    )
    size = int(train.classes.max()) + 1
    probabilities = {
        "unigram": (np.bincount(seen.ravel(), minlength=size) + 1.0)[unseen[2:]]
        / (seen.size + size),
        "trigram": Trigrams.count(seen, size).probabilities(unseen),
    }
    return {
        f"held_out/perplexity_{name}": math.exp(-float(np.log(values).mean()))
        for name, values in probabilities.items()
    }


@dataclass(frozen=True)
class Order:
    """The counts of the n-grams of one order; a key is the n-gram's digits in base `size`."""

    keys: Keys  # ascending
    counts: IntArray
    contexts: Keys  # ascending; a key without its last word
    totals: IntArray  # the sum of the counts of the n-grams with each context
    followers: IntArray  # and their number
    discount: float

    @classmethod
    def of(cls, occurrences: Keys, size: int) -> "Order":
        """The counts of n-grams, each as often as it is in `occurrences`."""
        keys, counts = np.unique(occurrences, return_counts=True)
        contexts, firsts, followers = np.unique(keys // size, return_index=True, return_counts=True)
        once, twice = (int((counts == times).sum()) for times in (1, 2))
        discount = once / (once + 2 * twice) if once else 0.5
        totals = np.add.reduceat(counts, firsts)
        return cls(keys, counts, contexts, totals, followers, discount)

    def interpolate(self, ngrams: Keys, size: int, lower: FloatArray) -> FloatArray:
        """The probability of each n-gram's last word, given those of the lower order."""
        counts = _look_up(self.keys, self.counts, ngrams)
        totals = _look_up(self.contexts, self.totals, ngrams // size)
        followers = _look_up(self.contexts, self.followers, ngrams // size)
        own = np.maximum(counts - self.discount, 0) + self.discount * followers * lower
        return np.where(totals > 0, own / np.maximum(totals, 1), lower)


def _look_up(keys: Keys, values: IntArray, wanted: Keys) -> IntArray:
    """The value of each wanted key; 0 for keys that do not exist."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


@dataclass(frozen=True)
class Trigrams:
    """An interpolated Kneser-Ney trigram model over `size` classes."""

    size: int
    orders: tuple[Order, Order, Order]  # unigrams first

    @classmethod
    def count(cls, classes: Keys, size: int) -> "Trigrams":
        """The model of a text, or of several, (texts, words). Lower orders count the distinct words
        before an n-gram."""
        trigrams = Order.of(_keys(classes, size), size)
        bigrams = Order.of(trigrams.keys % size**2, size)
        return cls(size, (Order.of(bigrams.keys % size, size), bigrams, trigrams))

    def probabilities(self, classes: Keys) -> FloatArray:
        """The probability of each word of a text from the third on, given the two before it."""
        keys = _keys(classes, self.size)
        probabilities = np.full(len(keys), 1 / self.size)
        for power, order in enumerate(self.orders, 1):
            probabilities = order.interpolate(keys % self.size**power, self.size, probabilities)
        return probabilities


def _keys(classes: Keys, size: int) -> Keys:
    return ((classes[..., :-2] * size + classes[..., 1:-1]) * size + classes[..., 2:]).ravel()
