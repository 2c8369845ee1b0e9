"""Calibration of answer probabilities: reliability bins and expected calibration error."""

import math
from dataclasses import dataclass

import numpy as np

from models.arrays import FloatArray

BINS = 10


@dataclass(frozen=True)
class Bin:
    """The answers whose probability lies in one of several equally wide intervals of 0..1."""

    probability: float  # mean, 0..1
    accuracy: float  # share of exact matches, 0..1
    count: int


def reliability(probability: FloatArray, em: FloatArray, bins: int = BINS) -> list[Bin]:
    """The reliability bins of answers, in ascending order; empty intervals are left out.

    `probability` (n,), 0..1, is the model's probability of each answer; `em` (n,) is its exact
    match, 0 or 1. Source: Guo et al. 2017, section 2.
    """
    number = np.minimum((probability * bins).astype(int), bins - 1)
    masks = (number == i for i in range(bins))
    return [
        Bin(float(probability[mask].mean()), float(em[mask].mean()), int(mask.sum()))
        for mask in masks
        if mask.any()
    ]


def expected_calibration_error(bins: list[Bin]) -> float:
    """The expected calibration error in percentage points; NaN if there are no answers.

    It is the mean, weighted by the answers in each bin, of the absolute difference between mean
    probability and share of exact matches. Source: Guo et al. 2017, equation 3.
    """
    if not bins:
        return math.nan
    errors = (b.count * abs(b.probability - b.accuracy) for b in bins)
    return 100 * sum(errors) / sum(b.count for b in bins)
