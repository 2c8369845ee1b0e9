"""Word similarity: how well cosines rank pairs of words as people do."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from infra.errors import UserError
from tasks.datasets.lexical_resources import COLLECTIONS
from tasks.embeddings.evaluation.nearest_neighbors import ALIKE, Neighbours

# scipy is imported where it is used: it takes a second to load.

SIMILARITY_TESTS = {
    name: COLLECTIONS[name].source for name in ("WordSim-353", "SimLex-999", "RW", "MEN")
}


class Similarity(TypedDict):
    """A test's result."""

    spearman: float | None  # None where the covered pairs can't be ranked
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
    pairs = list(read_pairs(file))
    cosines, scores, spelt = [], [], 0
    for left, right, score in pairs:
        a, b = space.vector(left), space.vector(right)
        if a is not None and b is not None:
            cosines.append(float(a @ b))
            scores.append(score)
            spelt += space.row(left) is None or space.row(right) is None
    return Similarity(
        spearman=_spearman(cosines, scores),
        pairs=len(pairs),
        covered=len(cosines) / max(len(pairs), 1),
        spelt=spelt / max(len(pairs), 1),
    )


def _spearman(cosines: Sequence[float], scores: Sequence[float]) -> float | None:
    """None where there are fewer than two pairs, or all of them are alike."""
    from scipy.stats import spearmanr

    if len(cosines) < 2 or np.ptp(cosines) < ALIKE or not np.ptp(scores):
        return None
    return float(spearmanr(cosines, scores).statistic)
