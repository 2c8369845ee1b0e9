"""Word similarity: how well cosines rank pairs of words as people do."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from tasks.embeddings.neighbours import Neighbours
from tasks.errors import UserError
from tasks.word_data import COLLECTIONS

SIMILARITY_TESTS = {
    name: COLLECTIONS[name].source for name in ("WordSim-353", "SimLex-999", "RW", "MEN")
}


class Similarity(TypedDict):
    """A test's result."""

    spearman: float | None  # None where fewer than two pairs are covered
    pairs: int
    covered: float  # share of pairs of which both words have a vector
    spelt: float  # share of pairs of which one is spelt by n-grams only


def read_pairs(file: Path) -> Iterator[tuple[str, str, float]]:
    """Two words and people's score a line. Raises UserError with the line that is not so."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            left, right, score = line.split()
            yield left, right, float(score)
        except ValueError:
            raise UserError(f"{file.name}, line {number}, is not two words and a score.") from None


def similarity(space: Neighbours, file: Path) -> Similarity:
    """Spearman's rank correlation of cosines and people's scores, over the covered pairs."""
    from scipy.stats import spearmanr

    pairs = list(read_pairs(file))
    cosines, scores, spelt = [], [], 0
    for left, right, score in pairs:
        a, b = space.vector(left), space.vector(right)
        if a is not None and b is not None:
            cosines.append(float(a @ b))
            scores.append(score)
            spelt += space.row(left) is None or space.row(right) is None
    found = float(spearmanr(cosines, scores).statistic) if len(cosines) > 1 else None
    return Similarity(
        spearman=found,
        pairs=len(pairs),
        covered=len(cosines) / max(len(pairs), 1),
        spelt=spelt / max(len(pairs), 1),
    )
