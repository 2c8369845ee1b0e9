"""Intervals and p-values of means and gains over groups of questions and seeds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from models.arrays import FloatArray, IntArray
from tasks.evaluation.bootstrap import (
    SAMPLES,
    Gain,
    enlargement,
    interval,
    means_of_drawn,
    sums_by_group,
)

SIGNIFICANT = 0.05  # p-values below are starred
# Samples for each gain of a table with more than 25. The smallest p-value of S samples is
# 2/(S + 1), which Holm's correction multiplies by the number of gains: fewer could star no gain.
SAMPLES_PER_GAIN = 80

Key = TypeVar("Key")


def bootstrap(
    after: FloatArray,
    before: FloatArray | None = None,
    group_of: IntArray | None = None,
    samples: int = SAMPLES,
) -> Gain:
    """The mean of `after`, or its gain over `before`, with the 95 % interval of
    `resampled_means`."""
    mean = float(after.mean()) - (0.0 if before is None else float(before.mean()))
    return Gain(mean, *interval(resampled_means(after, before, group_of, samples)))


def resampled_means(
    after: FloatArray,
    before: FloatArray | None = None,
    group_of: IntArray | None = None,
    samples: int = SAMPLES,
) -> FloatArray:
    """Means of `after`, or its mean gains over `before`, in bootstrap samples: (samples,).

    Both are (seeds, n), in percent, about the same n questions; the numbers of seeds may differ.
    Each sample draws groups with all their questions, and for each side seeds, with replacement;
    one seed says nothing about the variation between seeds. `group_of` is (n,) (see
    `choose_groups`); without it, each question is a group of its own.
    The mean of S drawn seeds varies (S-1)/S as much as that of S new ones, so the seeds'
    deviations are enlarged first. So are those of drawn groups (see `enlargement`).
    """
    random = np.random.default_rng(0)
    if group_of is None:
        group_of = np.arange(after.shape[1])
    sides = [_enlarged(side) for side in ([after] if before is None else [after, -before])]
    firsts = np.cumsum([len(side) for side in sides])[:-1]
    sums, sizes = sums_by_group(np.concatenate(sides), group_of)
    observed = sums.sum(axis=1) / sizes.sum()
    wider = enlargement(len(sizes)) if len(sizes) > 1 else 1.0
    means = []
    for drawn in means_of_drawn(sums, sizes, samples, random):
        of_sides = np.split(observed + wider * (drawn - observed), firsts)
        means.append(sum(_mean_of_drawn(of_seeds, random) for of_seeds in of_sides))
    return np.array(means)


def _mean_of_drawn(scores: FloatArray, random: np.random.Generator) -> float:
    """The mean of scores (seeds,) that are drawn with replacement."""
    return float(scores[random.integers(len(scores), size=len(scores))].mean())


def _enlarged(side: FloatArray) -> FloatArray:
    """(seeds, n) with √(S/(S-1)) times the deviations from the mean over S seeds."""
    seeds, mean = len(side), side.mean(axis=0)
    return side if seeds == 1 else mean + (side - mean) * np.sqrt(seeds / (seeds - 1))


def p_value(means: FloatArray) -> float:
    """The two-sided p-value of a mean gain of zero, from resampled means (samples,)."""
    samples = len(means)
    tail = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return min(1.0, 2 * (tail + 1) / (samples + 1))


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
    """The gain of each pair (after, before), whose p-values are corrected over the pairs.

    Both are (seeds, n), in percent; for `group_of`, see `resampled_means`.
    """
    samples = max(SAMPLES, SAMPLES_PER_GAIN * len(pairs))
    resampled = {key: resampled_means(*pair, group_of, samples) for key, pair in pairs.items()}
    corrected = holm({key: p_value(means) for key, means in resampled.items()})
    return {
        key: CorrectedGain(
            float(after.mean() - before.mean()), *interval(resampled[key]), corrected[key]
        )
        for key, (after, before) in pairs.items()
    }
