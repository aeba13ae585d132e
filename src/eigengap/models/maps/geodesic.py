"""Adding a point to an Isomap embedding: coordinates from the ways through its neighbours.

The geodesic distance of a new point x to a fitted one is the shortest way through those of its
neighbours that are fitted (Tenenbaum, de Silva and Langford 2000, for points; Bengio et al. 2004,
for new ones),

    delta_l(x) = min_j |x - x_j| + D_jl,

and its coordinates follow by Gower's formula, which for landmarks l is the triangulation of de
Silva and Tenenbaum (2003). A new point at distance 0 of a fitted one is that point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from eigengap.linalg import Array
from eigengap.models.maps.distances import GowerMap

PIECE_BYTES = 1 << 25  # of geodesic distances that are held at a time


@dataclass(frozen=True, eq=False)
class GeodesicMap:
    """Distances to neighbours among n fitted points -> coordinates.

    Attributes
    ----------
    paths : (n, m) geodesic distances of the fitted points to m landmarks, which may be all of them
    gower : of the m landmarks
    shift : (q,) what Gower's coordinates are moved by: the mean of all fitted points is 0
    Z : (n, q) coordinates of the fitted points
    unit : of the distances and coordinates that `gower` knows, so that their squares are of order 1
    """

    paths: Array
    gower: GowerMap
    shift: Array
    Z: Array
    unit: float = 1.0

    def __post_init__(self) -> None:
        Z = np.array(self.Z, dtype=np.float64, copy=True)
        Z.flags.writeable = False
        object.__setattr__(self, "Z", Z)
        n, m = self.paths.shape
        q = self.gower.q
        if self.gower.n != m or self.shift.shape != (q,) or self.Z.shape != (n, q):
            raise ValueError(
                f"shapes do not fit: paths {self.paths.shape}, A {self.gower.A.shape}, shift "
                f"{self.shift.shape}, Z {self.Z.shape}; expected (n, m), (m, q), (q,), (n, q)"
            )

    @property
    def n(self) -> int:
        return int(self.paths.shape[0])

    @property
    def m(self) -> int:
        return int(self.paths.shape[1])

    def forward(self, nearest: scipy.sparse.csr_array) -> Array:
        """Coordinates (c, q) of points whose neighbours among the fitted `nearest` (c, n) stores.

        Every point must have one.
        """
        c = nearest.shape[0]
        Z = np.empty((c, self.gower.q))
        step = max(1, PIECE_BYTES // (8 * self.m))
        for start in range(0, c, step):
            some = nearest[start : start + step]
            Z[start : start + step] = self.triangulated(self.geodesics(some))
        # A point at distance 0 of a fitted one is that one: the first where there are several.
        at = np.flatnonzero(nearest.data == 0.0)
        rows = np.searchsorted(nearest.indptr, at, side="right") - 1
        points, first = np.unique(rows, return_index=True)
        Z[points] = self.Z[nearest.indices[at[first]]]
        return Z

    def geodesics(self, nearest: scipy.sparse.csr_array) -> Array:
        """Geodesic distances (c, m) of points to the landmarks, through their neighbours."""
        counts = np.diff(nearest.indptr)
        found = np.full((nearest.shape[0], self.m), np.inf)
        for k in range(int(np.max(counts, initial=0))):
            rows = np.flatnonzero(counts > k)
            at = nearest.indptr[rows] + k
            way = self.paths[nearest.indices[at]]
            way += nearest.data[at, None]
            if len(rows) == len(found):
                np.minimum(found, way, out=found)
            else:
                found[rows] = np.minimum(found[rows], way)
        return found

    def triangulated(self, delta: Array) -> Array:
        """Coordinates (c, q) from geodesic distances (c, m) to the landmarks.

        What is added to all the squares of a point changes nothing. So the least of them is taken
        off, d^2 - e^2 = (d - e)(d + e), which keeps the digits of points that are far away.
        """
        delta = delta / self.unit
        least = np.min(delta, axis=1, keepdims=True)
        products = (delta - least) * (delta + least)
        products *= -0.5
        return self.gower.forward(products) * self.unit + self.shift
