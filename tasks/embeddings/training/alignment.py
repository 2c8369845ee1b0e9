"""Rotates one set of word vectors onto another by the words that both have.

Orthogonal Procrustes: the rotation W = U·Vᵀ, with U·S·Vᵀ the singular value decomposition of
X̂ᵀ·Ŷ, minimises ‖X̂·W − Ŷ‖ (Smith et al., 2017, "Offline bilingual word vectors"; Conneau et al.,
2018, "Word translation without parallel data", eq. 2). X̂ and Ŷ are the vectors of the common words
after their mean is subtracted and each is divided by its length.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from models.arrays import Float32Array, FloatArray

SHORTEST = 1e-12  # shorter vectors are divided by this length, so that a zero vector stays zero


@dataclass(frozen=True)
class Rotation:
    """The map x ↦ scale·(x − source_mean)·matrix + target_mean."""

    source_mean: FloatArray  # (e,)
    target_mean: FloatArray  # (d,)
    matrix: FloatArray  # (e, d), with orthonormal columns or rows
    scale: float

    @classmethod
    def fit(cls, source: Float32Array, target: Float32Array) -> Self:
        """The rotation of the source's vectors (n, e) onto the target's (n, d) of the same words.

        The scale gives the rotated vectors the same spread as the target's. With e < d the source
        is embedded in a subspace; with e > d it is projected.
        """
        source_mean, target_mean = source.mean(0, np.float64), target.mean(0, np.float64)
        x, y = source - source_mean, target - target_mean
        left, _, right = np.linalg.svd(_unit(x).T @ _unit(y), full_matrices=False)
        matrix = left @ right
        scale = np.linalg.norm(y) / max(float(np.linalg.norm(x @ matrix)), SHORTEST)
        return cls(source_mean, target_mean, matrix, float(scale))

    def apply(self, vectors: Float32Array) -> Float32Array:
        """(n, e) -> (n, d)"""
        rotated = self.scale * (vectors - self.source_mean) @ self.matrix + self.target_mean
        return rotated.astype(np.float32)


def mean_cosine(a: Float32Array, b: Float32Array) -> float:
    """Mean cosine between the rows of two matrices (n, d)."""
    return float((_unit(a) * _unit(b)).sum(axis=1).mean())


def _unit(vectors: FloatArray | Float32Array) -> FloatArray:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, SHORTEST), np.float64)
