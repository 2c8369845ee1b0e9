"""Coverage of a dataset's words and questions."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.embeddings.advice.dataset_words import DatasetWords, MissingWords, Words
from tasks.embeddings.advice.question_coverage import (
    covered_words,
    question_coverage,
    questions_reached,
    share_of_missing,
)

WORDS = st.frozensets(st.sampled_from("abcdefgh"))

MAIN = Words("ab")
DATASET = DatasetWords(
    counts=Counter({"a": 5, "b": 2, "x": 2, "y": 1}),
    contexts=Counter("abxy"),
    answers=Counter({"a": 1, "x": 3}),
    asked=Counter("by"),
    questions=[
        MissingWords(),
        MissingWords(in_question=Words("y")),
        MissingWords(in_answer=Words("x"), nearby=Words("y")),
    ],
)


def test_coverage_counts_occurrences_and_questions() -> None:
    coverage = question_coverage(DATASET, covered_words(DATASET, MAIN))
    assert (coverage.occurrences, coverage.words, coverage.answers) == (0.7, 0.5, 0.25)
    places = (coverage.missing_in_question, coverage.missing_in_answer, coverage.missing_nearby)
    assert (places, coverage.missing) == ((1, 1, 1), 2)


def test_added_words_reach_questions() -> None:
    assert questions_reached(DATASET, Words("x")) == 1
    assert questions_reached(DATASET, Words("y")) == 2
    assert share_of_missing(DATASET, MAIN, Words("x")) == pytest.approx(2 / 3)
    assert share_of_missing(DATASET, Words("abxy"), Words()) == 1, "nothing is missing"


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=6), WORDS, WORDS)
def test_more_words_never_cover_less(
    places: list[tuple[Words, Words, Words]], covered: Words, added: Words
) -> None:
    questions = [MissingWords(*words) for words in places]
    counts = Counter("abcdefgh")
    dataset = DatasetWords(counts, Counter(), Counter("abc"), Counter(), questions)
    before, after = (question_coverage(dataset, words) for words in (covered, covered | added))
    assert after.occurrences >= before.occurrences and after.answers >= before.answers
    assert after.missing <= before.missing
    newly_complete = before.missing - after.missing
    assert newly_complete <= questions_reached(dataset, added - covered)
