"""Whether a model is right as often as it says: reliability and expected calibration error."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]

BINS = 10


@dataclass(frozen=True)
class Bin:
    """The answers whose probability lies within one of equally wide intervals of 0..1."""

    probability: float  # mean, 0..1
    right: float  # share that matches exactly, 0..1
    count: int


def reliability(probability: FloatArray, em: FloatArray, bins: int = BINS) -> list[Bin]:
    """Answers by the probability that the model gave them, (n,), and their exact match, (n,).
    Intervals without answers are left out. Source: Guo et al. 2017, section 2."""
    number = np.minimum((probability * bins).astype(int), bins - 1)
    masks = (number == i for i in range(bins))
    return [
        Bin(float(probability[mask].mean()), float(em[mask].mean()), int(mask.sum()))
        for mask in masks
        if mask.any()
    ]


def expected_calibration_error(bins: list[Bin]) -> float:
    """How far probability and share of right answers are apart on average over the answers, in
    percentage points; not a number where there are none. Source: Guo et al. 2017, equation 3."""
    if not bins:
        return math.nan
    total = sum(one.count for one in bins)
    return 100 * sum(one.count * abs(one.probability - one.right) for one in bins) / total
