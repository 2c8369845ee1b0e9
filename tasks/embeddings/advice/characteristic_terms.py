"""The terms of a dataset's questions and answers that are much rarer in general text."""

import math
import re
from collections.abc import Container, Mapping, Sequence

from tasks.embeddings.advice.dataset_words import DatasetWords

TERM = re.compile(r"(?=.*[^\W\d_]{2})[^\W_][\w-]{2,}")  # a word with letters, perhaps with digits
LEAST_RATIO = 5  # of a term's frequency in the contexts to that in general text
SHIFT = 2.7  # of the Zipf-Mandelbrot law for English words


def general_frequencies(ranks: int) -> tuple[float, ...]:
    """The expected frequencies (sum 1) of words by rank in general text, and of a rarer word.

    Sets of vectors are sorted by frequency, but have no counts. The Zipf-Mandelbrot law gives the
    word of rank r a frequency in proportion to 1 / (r + 2.7).
    """
    weights = [1 / (rank + SHIFT) for rank in range(1, ranks + 2)]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def characteristic_terms(dataset: DatasetWords, general: Sequence[str]) -> list[str]:
    """The terms of the dataset's questions and answers, the most characteristic first.

    `general` has the words of a general set, the most frequent first; a term that it lacks counts
    as rarer than all. A term's score is the logarithm of its frequency in the contexts over that in
    general text, in units of its standard error. The error of the logarithm of a count of n is
    1/√n (Monroe et al., 2008, "Fightin' Words", eq. 20, for a well-known prior). Here n is the
    number of contexts with the term, because repetitions within a text are not independent, or if
    smaller the number of its occurrences in questions and answers. So neither a name that fills a
    single text counts as characteristic, nor the words of a page's header.
    """
    frequencies = general_frequencies(len(general))
    rank_of: Mapping[str, int] = {word: rank for rank, word in enumerate(general)}
    in_contexts = dataset.counts - dataset.asked  # general text has no questions
    total = in_contexts.total()

    def ratio(term: str) -> float:
        return in_contexts[term] / total / frequencies[rank_of.get(term, len(general))]

    def count(term: str) -> int:
        return min(dataset.contexts[term], dataset.asked[term] + dataset.answers[term])

    scores = {
        term: math.log(ratio(term)) * math.sqrt(count(term))
        for term in {*dataset.asked, *dataset.answers}
        if TERM.fullmatch(term) and ratio(term) >= LEAST_RATIO
    }
    return sorted(scores, key=lambda term: (-scores[term], term))


def first_of_both_kinds(terms: Sequence[str], known: Container[str], count: int) -> list[str]:
    """The first `count` terms that are known, then the first `count` that are not."""
    kinds = [[t for t in terms if (t in known) == wanted][:count] for wanted in (True, False)]
    return [term for kind in kinds for term in kind]
