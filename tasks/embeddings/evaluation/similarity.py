"""Word similarity: rank correlation of cosines with human similarity scores."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from infra.errors import UserError
from tasks.datasets.catalog import LEXICAL_RESOURCES
from tasks.embeddings.evaluation.nearest_neighbors import COSINE_TOLERANCE, Neighbours

# scipy is imported locally, because it takes a second to load.

SIMILARITY_TESTS = {
    name: LEXICAL_RESOURCES[name].source for name in ("WordSim-353", "SimLex-999", "RW", "MEN")
}


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
