"""Published tests of word vectors: similarity and analogies.

Similarity is the rank correlation of cosines with human scores. Analogy questions (Mikolov et al.,
2013) are by section: "Athens is to Greece as Oslo is to …".
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from tasks.datasets.catalog import LEXICAL_RESOURCES
from tasks.embeddings.evaluation.nearest_neighbors import COSINE_TOLERANCE, Neighbours

# scipy is imported locally, because it takes a second to load.

SIMILARITY_TESTS = {
    name: LEXICAL_RESOURCES[name].source for name in ("WordSim-353", "SimLex-999", "RW", "MEN")
}
ANALOGIES = LEXICAL_RESOURCES["analogies"].source
# Candidate answers are the first 100,000 words of a set, so that results are comparable across
# sets.
ANSWERS = 100_000
BATCH = 64


class Similarity(TypedDict):
    """A test's result."""

    spearman: float | None  # None if the covered pairs can't be ranked
    pairs: int
    covered: float  # share of pairs whose words both have a vector
    composed: float  # share of pairs with an OOV word whose vector is composed from n-grams


def read_pairs(file: Path) -> Iterator[tuple[str, str, float]]:
    """Yield the two words and the human score of each line.

    Raises:
        UserError: a line is not two words and a score; names the line.
    """
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            left, right, score = line.split()
            yield left, right, float(score)
        except ValueError:
            raise UserError(
                f"{file.name}, line {number}: expected two words and a score. Fix the line, or "
                "download the file again."
            ) from None


def similarity(space: Neighbours, file: Path) -> Similarity:
    """Spearman's rank correlation of cosines and human scores, over the covered pairs.

    gensim's `evaluate_word_pairs` composes no OOV words, skips invalid lines, and ranks cosines
    that differ by rounding errors only.
    """
    pairs = list(read_pairs(file))
    cosines, scores, composed = [], [], 0
    for left, right, score in pairs:
        a, b = space.vector(left), space.vector(right)
        if a is not None and b is not None:
            cosines.append(float(a @ b))
            scores.append(score)
            composed += space.row(left) is None or space.row(right) is None
    return Similarity(
        spearman=_spearman(cosines, scores),
        pairs=len(pairs),
        covered=len(cosines) / max(len(pairs), 1),
        composed=composed / max(len(pairs), 1),
    )


def _spearman(cosines: Sequence[float], scores: Sequence[float]) -> float | None:
    """Spearman's rho; None for fewer than two pairs, or if all cosines or all scores are equal."""
    from scipy.stats import spearmanr

    if len(cosines) < 2 or np.ptp(cosines) < COSINE_TOLERANCE or not np.ptp(scores):
        return None
    return float(spearmanr(cosines, scores).statistic)


class Accuracy(TypedDict):
    """A section's result."""

    accuracy: float | None  # share of the covered questions; None if no question is covered
    questions: int
    covered: float  # share of questions whose four words are all among the first `ANSWERS` words


def read_questions(file: Path) -> dict[str, list[list[str]]]:
    """Questions of four words each, by section.

    Raises:
        UserError: a line is neither a section nor four words; names the line.
    """
    sections: dict[str, list[list[str]]] = {}
    current: list[list[str]] = []
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
    done = 0
    with ProgressReporter("analogies", sum(map(len, sections.values())), "questions") as progress:
        for name, questions in sections.items():
            progress.report(done, name)
            rows = [[space.row(word) for word in question] for question in questions]
            known = [[r for r in q if r is not None and r < ANSWERS] for q in rows]
            correct[name] = _correct_answers(space, [q for q in known if len(q) == 4])
            done += len(questions)
    accuracies = {name: _accuracy(correct[name], len(sections[name])) for name in sections}
    all_answers = [answer for answers in correct.values() for answer in answers]
    return {"all": _accuracy(all_answers, sum(map(len, sections.values()))), **accuracies}


def _accuracy(correct: Sequence[bool], questions: int) -> Accuracy:
    return Accuracy(
        accuracy=sum(correct) / len(correct) if correct else None,
        questions=questions,
        covered=len(correct) / questions if questions else 0.0,
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
