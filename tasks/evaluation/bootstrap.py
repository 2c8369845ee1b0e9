"""Compares two models by the paired bootstrap over contexts.

Efron & Tibshirani (1993), "An Introduction to the Bootstrap", ch. 13; for pairs of systems see
Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation". Whole contexts
are drawn because the answers to questions about one context are not independent; see Davison &
Hinkley (1997), "Bootstrap Methods and their Application", section 3.8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    context_of: IntArray,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Gain:
    """The mean gain of `after` over `before`, in percent, with its confidence interval.

    All are (n,), n >= 1: scores (0 to 100) of the same questions, in the same order, and the
    context of each. Each bootstrap sample draws contexts with replacement, with all questions about
    them, and keeps the two scores of a question paired. Equal input gives equal output.

    The bootstrap underestimates the variation between few contexts, so the interval is enlarged as
    that of a mean of few numbers (see `enlargement`).
    """
    differences = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    sums, sizes = sums_by_context(differences, context_of)
    means = [*means_of_drawn(sums, sizes, SAMPLES, np.random.default_rng(seed))]
    mean = float(differences.mean())
    if len(sizes) == 1:
        return Gain(mean, -LARGEST, LARGEST)
    bounds = np.array(interval(np.array(means), confidence))
    low, high = mean + enlargement(len(sizes), confidence) * (bounds - mean)
    return Gain(mean, max(-LARGEST, float(low)), min(LARGEST, float(high)))


def means_of_drawn(
    sums: FloatArray, sizes: IntArray, samples: int, random: np.random.Generator
) -> Iterator[Any]:
    """Yield the means of the scores (...,) in bootstrap samples of the contexts, from the sums of
    each context (..., c) and its number of questions (c,)."""
    contexts = len(sizes)
    for _ in range(samples):
        # How often each context is drawn
        counts = np.bincount(random.integers(contexts, size=contexts), minlength=contexts)
        yield sums @ counts / (counts @ sizes)


def interval(means: FloatArray, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The confidence interval from the means of bootstrap samples, (samples,)."""
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


def enlargement(contexts: int, confidence: float = CONFIDENCE) -> float:
    """How much wider the interval of a mean of so many numbers, two or more, is than the bootstrap
    shows: by √(n/(n-1)) for the standard error, and by the ratio of Student's to normal quantiles.

    This is the expanded percentile interval of Hesterberg (2015), "What Teachers Should Know About
    the Bootstrap".
    """
    from scipy.special import ndtri, stdtrit  # takes a while to load

    quantile = (1 + confidence) / 2
    ratio = stdtrit(contexts - 1, quantile) / ndtri(quantile)
    return float(np.sqrt(contexts / (contexts - 1)) * ratio)


def sums_by_context(scores: FloatArray, context_of: IntArray) -> tuple[FloatArray, IntArray]:
    """The sums of the scores (..., n) of the questions about each context, (..., c), and their
    numbers, (c,); `context_of` is (n,).

    If all questions are about one context, each counts as one of its own, because one context says
    nothing about the variation between contexts.
    """
    order = np.argsort(context_of, kind="stable")
    _, first, sizes = np.unique(context_of[order], return_index=True, return_counts=True)
    if len(sizes) == 1:
        return scores, np.ones(len(context_of), np.int64)
    return np.add.reduceat(scores[..., order], first, axis=-1), sizes


def signed(points: float) -> str:
    """A difference as text, with its sign and one decimal place."""
    return f"{points:+.1f}".replace("-", "−")
