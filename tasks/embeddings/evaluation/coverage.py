"""Coverage: the share of a question-answering dataset's words that have a vector in a set."""

from collections import Counter
from collections.abc import Container, Mapping
from typing import TypedDict

from tasks.text.vocabulary import case_key, is_known

# Frequency bands in ascending order, each with its lowest count.
BANDS = {"once": 1, "2 to 4 times": 2, "5 to 9": 5, "10 to 99": 10, "100 and more": 100}


class Coverage(TypedDict):
    """A band's counts, and the shares (0 to 1) of its tokens and distinct words with a vector."""

    tokens: int
    types: int
    tokens_covered: float
    types_covered: float
    missing: list[str]  # the most frequent words without a vector


def coverage_by_band(
    vocabulary: Container[str], counts: Mapping[str, int], lower_case: bool
) -> dict[str, Coverage]:
    """Coverage of all words ("all") and of each band by a set's words.

    Forms that differ only in case count as one word if `lower_case`. Words are looked up by the
    pipeline's own rule, so words composed from n-grams are not covered.
    """
    words: Counter[str] = Counter()
    for form, count in counts.items():
        words[case_key(form, lower_case)] += count
    bands: dict[str, dict[str, int]] = {"all": words, **{name: {} for name in BANDS}}
    for word, count in words.items():
        band = [name for name, lowest in BANDS.items() if lowest <= count][-1]
        bands[band][word] = count
    return {name: _coverage(vocabulary, band) for name, band in bands.items()}


def _coverage(vocabulary: Container[str], words: Mapping[str, int]) -> Coverage:
    known = {word for word in words if is_known(word, vocabulary, lower_case=False)}
    tokens = sum(words.values())
    missing = sorted((w for w in words if w not in known), key=lambda w: (-words[w], w))
    return Coverage(
        tokens=tokens,
        types=len(words),
        tokens_covered=sum(words[w] for w in known) / max(tokens, 1),
        types_covered=len(known) / max(len(words), 1),
        missing=missing[:20],
    )
