"""Analogy questions (Mikolov et al., 2013): "Athens is to Greece as Oslo is to …", by section."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from infra.errors import UserError
from tasks.datasets.catalog import LEXICAL_RESOURCES
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours

ANALOGIES = LEXICAL_RESOURCES["analogies"].source
# Candidate answers are the first 100,000 words of a set, so that results are comparable across
# sets.
ANSWERS = 100_000

BATCH = 64

AnalogyQuestion = list[str]


class Accuracy(TypedDict):
    """A section's result."""

    accuracy: float | None  # share of the covered questions; None if no question is covered
    questions: int
    covered: float  # share of questions whose four words are all among the first `ANSWERS` words


def read_questions(file: Path) -> dict[str, list[AnalogyQuestion]]:
    """Questions of four words each, by section.

    Raises:
        UserError: a line is neither a section nor four words; names the line.
    """
    sections: dict[str, list[AnalogyQuestion]] = {}
    current: list[AnalogyQuestion] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(":"):
            current = sections.setdefault(line[1:].strip(), [])
        elif len(line.split()) == 4:
            current.append(line.split())
        else:
            raise UserError(
                f"{file.name}, line {number}: expected four words or a section header (': name'). "
                "Fix the line, or download the file again."
            )
    return sections


def analogies(space: Neighbours, file: Path) -> dict[str, Accuracy]:
    """Accuracy of 3CosAdd in each section, and over all sections ("all")."""
    correct: dict[str, list[bool]] = {}
    sections = read_questions(file)
    for name, questions in sections.items():
        rows = [[space.row(word) for word in question] for question in questions]
        known = [[r for r in q if r is not None and r < ANSWERS] for q in rows]
        correct[name] = _correct_answers(space, [q for q in known if len(q) == 4])
    accuracies = {name: _accuracy(correct[name], len(sections[name])) for name in sections}
    all_answers = [answer for answers in correct.values() for answer in answers]
    return {"all": _accuracy(all_answers, sum(map(len, sections.values()))), **accuracies}


def _accuracy(correct: Sequence[bool], questions: int) -> Accuracy:
    share = sum(correct) / len(correct) if correct else None
    return Accuracy(
        accuracy=share, questions=questions, covered=len(correct) / questions if questions else 0.0
    )


def _correct_answers(space: Neighbours, questions: Sequence[Sequence[int]]) -> list[bool]:
    """Whether the predicted row is the fourth row, for each question of four rows.

    A matrix product for each batch takes a tenth of the time of gensim's `evaluate_word_analogies`,
    which computes a matrix-vector product for each question (GloVe 6B 50d, one core).
    """
    vectors = space.keyed.vectors[:ANSWERS] / space.keyed.norms[:ANSWERS, None]
    correct: list[bool] = []
    for first in range(0, len(questions), BATCH):
        a, b, c, expected = np.array(questions[first : first + BATCH]).T
        cosines = (vectors[b] - vectors[a] + vectors[c]) @ vectors.T
        for question_rows in (a, b, c):
            cosines[np.arange(len(a)), question_rows] = -np.inf
        correct += (cosines.argmax(axis=1) == expected).tolist()
    return correct
