"""Compares two models by the paired bootstrap over groups of questions.

Efron & Tibshirani (1993), "An Introduction to the Bootstrap", ch. 13; for pairs of systems see
Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation". Whole groups are
drawn because the answers to questions about one context or article are not independent; see Davison
& Hinkley (1997), "Bootstrap Methods and their Application", section 3.8.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import FloatArray, IntArray

SAMPLES = 2_000
CONFIDENCE = 0.95
LARGEST = 100.0  # a difference between scores in percent


@dataclass(frozen=True)
class Gain:
    """A mean difference and its confidence interval, of 95 % unless stated otherwise."""

    mean: float
    low: float
    high: float

    @property
    def is_certain(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    @property
    def text(self) -> str:
        """For example "+1.20 (+0.35 to +2.05)"."""
        return f"{self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def paired_gain(
    before: FloatArray,
    after: FloatArray,
    group_of: IntArray,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Gain:
    """The mean gain of `after` over `before`, in percent, with its confidence interval.

    All are (n,), n >= 1: scores (0 to 100) of the same questions, in the same order, and the group
    of each (see `choose_groups`). Each bootstrap sample draws groups with replacement,
    with all their questions, and keeps the two scores of a question paired. Equal input gives equal
    output.

    The bootstrap underestimates the variation between few groups, so the interval is enlarged as
    that of a mean of few numbers (see `enlargement`).
    """
    differences = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    sums, sizes = sums_by_group(differences, group_of)
    mean = float(differences.mean())
    if (groups := len(sizes)) == 1:
        return Gain(mean, -LARGEST, LARGEST)
    random = np.random.default_rng(seed)
    means = []
    for _ in range(SAMPLES):
        # How often each group is drawn
        counts = np.bincount(random.integers(groups, size=groups), minlength=groups)
        means.append(sums @ counts / (counts @ sizes))
    bounds = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = mean + enlargement(groups, confidence) * (bounds - mean)
    return Gain(mean, max(-LARGEST, float(low)), min(LARGEST, float(high)))


def enlargement(groups: int, confidence: float = CONFIDENCE) -> float:
    """How much wider the interval of a mean of so many numbers, two or more, is than the bootstrap
    shows: by √(n/(n-1)) for the standard error, and by the ratio of Student's to normal quantiles.

    This is the expanded percentile interval of Hesterberg (2015), "What Teachers Should Know About
    the Bootstrap".
    """
    from scipy.special import ndtri, stdtrit  # takes a while to load

    quantile = (1 + confidence) / 2
    ratio = stdtrit(groups - 1, quantile) / ndtri(quantile)
    return float(np.sqrt(groups / (groups - 1)) * ratio)


def sums_by_group(scores: FloatArray, group_of: IntArray) -> tuple[FloatArray, IntArray]:
    """The sums of the scores (..., n) of the questions of each group, (..., g), and their numbers,
    (g,); `group_of` is (n,).

    If all questions are of one group, each counts as one of its own, because one group says nothing
    about the variation between groups.
    """
    order = np.argsort(group_of, kind="stable")
    _, first, sizes = np.unique(group_of[order], return_index=True, return_counts=True)
    if len(sizes) == 1:
        return scores, np.ones(len(group_of), np.int64)
    return np.add.reduceat(scores[..., order], first, axis=-1), sizes


def signed(points: float) -> str:
    """A difference as text, with its sign and one decimal place."""
    return f"{points:+.1f}".replace("-", "−")
