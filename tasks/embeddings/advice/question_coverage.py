"""How much of a dataset has vectors: its occurrences, its answers, and its questions."""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from tasks.embeddings.advice.dataset_words import DatasetWords, Words
from tasks.text.vocabulary import is_known


@dataclass(frozen=True)
class QuestionCoverage:
    """Shares (0 to 1) with a vector, and the numbers of questions with a word that has none."""

    occurrences: float
    words: float  # distinct ones
    answers: float  # occurrences in answers
    missing_in_question: int
    missing_in_answer: int
    missing_nearby: int
    missing: int  # questions with a missing word at any of these places


def covered_words(dataset: DatasetWords, known: Container[str]) -> Words:
    """The words of the dataset that have a vector; `known` has the words of a set or corpus."""
    return Words(word for word in dataset.counts if is_known(word, known, lower_case=False))


def question_coverage(dataset: DatasetWords, covered: Words) -> QuestionCoverage:
    """Coverage by the main set and other sources, which together have the words `covered`."""
    lacking = [
        (q.in_question - covered, q.in_answer - covered, q.nearby - covered)
        for q in dataset.questions
    ]
    return QuestionCoverage(
        occurrences=_share(dataset.counts, covered),
        words=len(covered.intersection(dataset.counts)) / max(len(dataset.counts), 1),
        answers=_share(dataset.answers, covered),
        missing_in_question=sum(bool(question) for question, _, _ in lacking),
        missing_in_answer=sum(bool(answer) for _, answer, _ in lacking),
        missing_nearby=sum(bool(nearby) for _, _, nearby in lacking),
        missing=sum(any(places) for places in lacking),
    )


def questions_reached(dataset: DatasetWords, added: Words) -> int:
    """The number of questions with a missing word, at any place, that is among those `added`."""
    return sum(not question.all.isdisjoint(added) for question in dataset.questions)


def share_of_missing(dataset: DatasetWords, main: Words, added: Words) -> float:
    """The share (0 to 1) of the occurrences without a vector in `main` that `added` covers."""
    missing = {word: n for word, n in dataset.counts.items() if word not in main}
    return _share(missing, added)


def _share(counts: Mapping[str, int], covered: Words) -> float:
    """The covered share of the occurrences; 1 if there are none, as nothing is missing then."""
    total = sum(counts.values())
    return sum(n for word, n in counts.items() if word in covered) / total if total else 1.0
