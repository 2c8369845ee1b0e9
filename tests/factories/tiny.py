"""The generated dataset, and guesses of its answers by shortcuts."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from statistics import mean
from typing import Any

from models.squad_metrics import f1
from tasks.datasets.tiny import PHRASES, generate

FUNCTION_WORDS = (
    "a after all and are as at be by can could did do does for from go had has in into is it its "
    "many of off on one out over some that the there this through to under up was were what when "
    "where which while who whom whose with would"
)


@cache
def datasets() -> tuple[dict[str, Any], dict[str, Any]]:
    return generate()


def paragraphs(dataset: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for article in dataset["data"] for p in article["paragraphs"]]


def question_pairs(dataset: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The (context, question) pair of every question."""
    return ((p["context"], q) for p in paragraphs(dataset) for q in p["qas"])


def golds(question: dict[str, Any]) -> list[str]:
    return [answer["text"] for answer in question["answers"]]


def mean_f1(guess: Callable[[str, dict[str, Any]], str], dataset: dict[str, Any]) -> float:
    return 100 * mean(f1(guess(c, q), golds(q), v2=True) for c, q in question_pairs(dataset))


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


# All values that are neither names nor numbers.
KNOWN_PHRASES = [
    " ".join(parts) for lists in PHRASES.values() for parts in product(*map(str.split, lists))
]
CANDIDATE = re.compile(rf"\b(?:[A-Z][a-z]{{5,}}|\d+(?: miles)?|{'|'.join(KNOWN_PHRASES)})\b")


def best_sentence_candidates(context: str, question: str) -> list[str]:
    """The names, numbers and phrases of the sentence that shares most content words with the
    question, in order of occurrence and without those that the question contains."""
    sought = words(question) - words(FUNCTION_WORDS)
    best = max(context.split(". "), key=lambda sentence: len(words(sentence) & sought))
    return [c for c in CANDIDATE.findall(best) if c not in question]
