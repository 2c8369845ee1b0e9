"""WEAT: the differential association of two sets of target words with two sets of attributes.

Caliskan, Bryson and Narayanan (2017), "Semantics derived automatically from language corpora
contain human-like biases", Science 356. The word lists are from its supplement (WEAT 1, 6, 7).
"""

from typing import NamedTuple, TypedDict

import numpy as np

from models.arrays import Float32Array
from tasks.embeddings.evaluation.nearest_neighbors import (
    COSINE_TOLERANCE,
    Neighbours,
    known_vectors,
)

# scipy is imported locally, because it takes a second to load.

# Maximum number of partitions: all are tried if there are no more, else random ones.
PERMUTATIONS = 10_000


class Association(NamedTuple):
    """Target words X and Y, attribute words A and B."""

    x: str
    y: str
    a: str
    b: str


_PLEASANT = (
    "caress freedom health love peace cheer friend heaven loyal pleasure diamond gentle honest "
    "lucky rainbow diploma gift honor miracle sunrise family happy laughter paradise vacation"
)
_UNPLEASANT = (
    "abuse crash filth murder sickness accident death grief poison stink assault disaster hatred "
    "pollute tragedy divorce jail poverty ugly cancer kill rotten vomit agony prison"
)
TESTS = {
    "flowers, insects: pleasant, unpleasant": Association(
        "aster clover hyacinth marigold poppy azalea crocus iris orchid rose bluebell daffodil "
        "lilac pansy tulip buttercup daisy lily peony violet carnation gladiola magnolia petunia "
        "zinnia",
        "ant caterpillar flea locust spider bedbug centipede fly maggot tarantula bee cockroach "
        "gnat mosquito termite beetle cricket hornet moth wasp blackfly dragonfly horsefly roach "
        "weevil",
        _PLEASANT,
        _UNPLEASANT,
    ),
    "men's, women's names: career, family": Association(
        "John Paul Mike Kevin Steve Greg Jeff Bill",
        "Amy Joan Lisa Sarah Diana Kate Ann Donna",
        "executive management professional corporation salary office business career",
        "home parents children family cousins marriage wedding relatives",
    ),
    "mathematics, arts: men, women": Association(
        "math algebra geometry calculus equations computation numbers addition",
        "poetry art dance literature novel symphony drama sculpture",
        "male man boy brother he him his son",
        "female woman girl sister she her hers daughter",
    ),
}


class Bias(TypedDict):
    """A test's result."""

    effect: float | None  # Cohen's d, -2 to 2; None if too few words have vectors, or no spread
    p: float | None  # one-sided: share of partitions of X and Y with at least this difference
    covered: float  # share of the test's words that have vectors


def weat(space: Neighbours, test: Association, seed: int = 0) -> Bias:
    """Effect size and permutation p-value (equations in the paper's supplement, "Methods")."""
    words = [group.split() for group in test]
    x, y, a, b = (known_vectors(space, group) for group in words)
    covered = (len(x) + len(y) + len(a) + len(b)) / sum(map(len, words))
    if min(len(x), len(y)) < 2 or not len(a) or not len(b):
        return Bias(effect=None, p=None, covered=covered)
    targets = np.concatenate([x, y])
    scores = (targets @ a.T).mean(axis=1) - (targets @ b.T).mean(axis=1)
    spread = scores.std(ddof=1)
    if spread < COSINE_TOLERANCE:
        return Bias(effect=None, p=None, covered=covered)
    effect = (scores[: len(x)].mean() - scores[len(x) :].mean()) / spread
    return Bias(effect=float(effect), p=p_value(scores, len(x), seed), covered=covered)


def p_value(scores: Float32Array, first: int, seed: int) -> float:
    """Share of partitions of `scores` (n,) whose first part sums to at least the observed sum.

    The observed partition is the first `first` scores and the rest.
    """
    from scipy.stats import permutation_test

    exact = scores.astype(np.float64)
    least = exact[:first].sum() - COSINE_TOLERANCE
    test = permutation_test(
        (exact[:first], exact[first:]),
        lambda x, y, axis: x.sum(axis=axis) >= least,
        n_resamples=PERMUTATIONS - 1,  # besides the observed partition, so that p is never zero
        alternative="greater",
        rng=seed,
    )
    return float(test.pvalue)
