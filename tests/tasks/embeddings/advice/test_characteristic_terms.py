"""Terms that are characteristic of a dataset."""

from collections import Counter

import pytest

from tasks.embeddings.advice.characteristic_terms import (
    characteristic_terms,
    first_of_both_kinds,
    general_frequencies,
)
from tasks.embeddings.advice.dataset_words import DatasetWords

GENERAL = ["the", *(f"word{number}" for number in range(2000)), "virus", "walrus"]


def dataset(**contexts: int) -> DatasetWords:
    """A dataset in which "the" is as frequent as expected, and each of these terms occurs 60 times,
    20 of them in questions, and in so many contexts."""
    general = dict.fromkeys(GENERAL[1:2000], 5)
    asked = Counter({"the": 50, "word9": 900, **dict.fromkeys(contexts, 20)})
    counts = Counter({"the": 500, **general, **dict.fromkeys(contexts, 40)}) + asked
    return DatasetWords(counts, Counter({"the": 40, "word9": 40, **contexts}), Counter(), asked, [])


def test_frequencies_fall_and_sum_to_one() -> None:
    frequencies = general_frequencies(50)
    assert len(frequencies) == 51 and sum(frequencies) == pytest.approx(1)
    assert list(frequencies) == sorted(frequencies, reverse=True)
    assert frequencies[0] / frequencies[9] == pytest.approx(12.7 / 3.7)


def test_terms_in_many_contexts_come_first() -> None:
    terms = characteristic_terms(dataset(walrus=3, virus=30, sars=9), GENERAL)
    assert terms == ["virus", "sars", "walrus"], (
        "and neither a general word nor one of questions alone"
    )


def test_words_outside_of_questions_are_no_terms() -> None:
    words = dataset(virus=30)
    words.counts["https"] = words.contexts["https"] = 40
    assert characteristic_terms(words, GENERAL) == ["virus"]


def test_first_terms_of_both_kinds() -> None:
    assert first_of_both_kinds(["a", "x", "b", "y", "c"], {"a", "b", "c"}, 2) == list("abxy")
