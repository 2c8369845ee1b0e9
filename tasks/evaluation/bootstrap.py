"""Compares two models by the paired bootstrap over questions.

Efron & Tibshirani (1993), "An Introduction to the Bootstrap", ch. 13; for pairs of systems see
Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation".
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import FloatArray

SAMPLES = 2_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Gain:
    """A mean difference and its 95 % confidence interval."""

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


def paired_gain(before: FloatArray, after: FloatArray, seed: int = 0) -> Gain:
    """The mean gain of `after` over `before`, in the unit of the scores.

    Both are (n,), n >= 1: scores of the same questions, in the same order. Each bootstrap sample
    draws n questions with replacement and keeps the two scores of a question paired. Equal input
    gives equal output.
    """
    differences = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    random = np.random.default_rng(seed)
    n = len(differences)
    means = [differences[random.integers(n, size=n)].mean() for _ in range(SAMPLES)]
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Gain(float(differences.mean()), float(low), float(high))


def signed(points: float) -> str:
    """A difference as text, with its sign and one decimal place."""
    return f"{points:+.1f}".replace("-", "−")
