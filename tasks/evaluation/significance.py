"""Intervals and p-values of means and gains over groups of questions and seeds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from models.arrays import FloatArray, IntArray
from tasks.evaluation.bootstrap import CONFIDENCE, Gain, enlargement, sums_by_group

SIGNIFICANT = 0.05  # p-values below are starred

Key = TypeVar("Key")


def t_test(
    after: FloatArray, before: FloatArray | None = None, group_of: IntArray | None = None
) -> tuple[Gain, float]:
    """The mean of `after`, or its gain over `before`, with its 95 % interval, and the two-sided
    p-value of zero by the same t statistic.

    Both are (seeds, n), in percent, about the same n questions; the numbers of seeds may differ.
    `group_of` is (n,) (see `choose_groups`); without it, each question is a group of its own.

    The standard error covers the variation between groups, enlarged for few groups (see
    `enlargement`), and that between seeds, which both sides are assumed to share. So few seeds
    estimate the latter that the interval has Student's factor for 2(S - 1) degrees of freedom with
    S seeds on both sides. One seed says nothing about the variation: with one on each side, the
    interval leaves it out.
    """
    from scipy.special import stdtr, stdtrit  # takes a while to load

    sides = [after] if before is None else [after, before]
    differences = after.mean(axis=0) - (0.0 if before is None else before.mean(axis=0))
    if group_of is None:
        group_of = np.arange(len(differences))
    mean = float(differences.mean())
    sums, sizes = sums_by_group(differences, group_of)
    of_groups = float(np.linalg.norm(sums - mean * sizes)) / len(differences)
    if len(sizes) > 1:
        of_groups *= enlargement(len(sizes))
    of_seeds, degrees = _error_of_seeds(sides)
    error = math.hypot(of_groups, of_seeds)
    margin = error * float(stdtrit(degrees, (1 + CONFIDENCE) / 2))
    p = 2 * float(stdtr(degrees, -abs(mean) / error)) if error else float(mean == 0)
    return Gain(mean, mean - margin, mean + margin), p


def _error_of_seeds(sides: list[FloatArray]) -> tuple[float, float]:
    """The standard error that seeds add to the difference of the sides, (seeds, n) each, and its
    degrees of freedom: 0 and infinity if no side has two seeds."""
    seeds = np.array([len(side) for side in sides])
    degrees = int((seeds - 1).sum())
    if not degrees:
        return 0.0, math.inf
    of_seeds = [side.mean(axis=1) for side in sides]
    squares = sum(((means - means.mean()) ** 2).sum() for means in of_seeds)
    return math.sqrt(squares / degrees * (1 / seeds).sum()), degrees


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """The p-values after Holm's correction for several comparisons (Holm, 1979)."""
    adjusted, largest = {}, 0.0
    for number, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - number) * p_values[name]))
        adjusted[name] = largest
    return adjusted


@dataclass(frozen=True)
class CorrectedGain(Gain):
    """A mean gain with its interval, which is not corrected, and its p-value after Holm's
    correction."""

    p: float

    @property
    def is_significant(self) -> bool:
        """Whether the gain is starred."""
        return self.p < SIGNIFICANT

    @property
    def text(self) -> str:
        """The gain with its interval, and a star if it is significant."""
        return super().text + (" *" if self.is_significant else "")


def corrected_gains(
    pairs: Mapping[Key, tuple[FloatArray, FloatArray]], group_of: IntArray | None = None
) -> dict[Key, CorrectedGain]:
    """The gain of each pair (after, before), whose p-values are corrected over the pairs; the
    arguments are those of `t_test`."""
    tested = {key: t_test(*pair, group_of) for key, pair in pairs.items()}
    corrected = holm({key: p for key, (_, p) in tested.items()})
    return {
        key: CorrectedGain(gain.mean, gain.low, gain.high, corrected[key])
        for key, (gain, _) in tested.items()
    }
