"""Adding a point to a configuration: coordinates from what a new point is to the old ones.

Classical scaling knows the points it was fitted to only by their inner products G, or by their
distances, G = -D^2 / 2. Gower (1968), "Adding a point to vector diagrams in multivariate
analysis", places a new one: with g its inner products with the n old ones, centred as G was, and
Z' diag(w) Z = diag(lam), its coordinates are

    z = diag(lam)^-1 Z' diag(w) g,

which of an old point are its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eigengap.linalg import Array

Kind = Literal["cailliez", "lingoes"]


@dataclass(frozen=True, eq=False)
class GowerMap:
    """Inner products with n fitted points -> coordinates.

    Attributes
    ----------
    A : (n, q) w z / lam of every fitted point; columns sum to 0
    means : (n,) weighted mean inner product of each fitted point with all of them
    """

    A: Array
    means: Array

    def __post_init__(self) -> None:
        for name in ("A", "means"):
            value = np.array(getattr(self, name), dtype=np.float64, copy=True)
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        if self.A.ndim != 2 or self.means.shape != self.A.shape[:1]:
            raise ValueError(
                f"shapes do not fit: A {self.A.shape}, means {self.means.shape}; expected (n, q), "
                "(n,)"
            )

    @property
    def n(self) -> int:
        return int(self.A.shape[0])

    @property
    def q(self) -> int:
        return int(self.A.shape[1])

    def forward(self, G: Array) -> Array:
        """Coordinates (m, q) from inner products G (m, n) with the fitted points.

        What is added to a whole row of G changes nothing, for the columns of A sum to 0: so g needs
        no inner product of the new point with itself. The row's mean is taken off to keep digits.
        """
        centred = G - self.means
        centred -= np.mean(centred, axis=1, keepdims=True)
        return np.asarray(centred @ self.A)


@dataclass(frozen=True)
class AdditiveConstant:
    """What is added to distances to make them Euclidean.

    "cailliez": d + c (Cailliez 1983); "lingoes": sqrt(d^2 + 2 c) (Lingoes 1971). A point is at
    distance 0 of itself before and after, and so is one that coincides with another: distances up
    to `zero` are taken for those.
    """

    kind: Kind
    c: float
    zero: float = 0.0

    def corrected(self, D: Array) -> Array:
        """Distances (m, n) with the constant added where two points differ."""
        added = D + self.c if self.kind == "cailliez" else np.sqrt(D * D + 2.0 * self.c)
        return np.where(self.zero >= D, 0.0, added)


def inner_products(D: Array) -> Array:
    """-D^2 / 2, which centred are the inner products of points at distances D."""
    G = D * D
    G *= -0.5
    return G


def gram_distances(G: Array, row_size: Array, size: Array) -> Array:
    """Distances (m, n) from inner products G (m, n) and those of the points with themselves.

    d^2 = g_ii + g_jj - 2 g_ij; 0 where an indefinite G makes it negative.
    """
    square = row_size[:, None] + size - 2.0 * G.astype(np.float64)
    return np.sqrt(np.maximum(square, 0.0))
