"""Functions on the nodes of a graph, and their values at new ones: the map of Laplacian eigenmaps.

An eigenvector of L y = lam D y, L = D - W, is at every node a weighted mean of its values at the
neighbours,

    y_i = sum_j W_ij y_j / ((1 - lam) d_i),     d_i = sum_j W_ij,

and at a new one with weights w_j it is taken to be the same (Bengio et al. 2004, "Out-of-sample
extensions for LLE, Isomap, MDS, eigenmaps, and spectral clustering": the Nystroem formula). Where
L y = lam y is not normalised, y_i = sum_j W_ij y_j / (d_i - lam).

The factor has no meaning near its pole, where lam is that of the fastest functions rather than of
the slowest. The mean itself then stands, which is the value of least energy
sum_j w_j (y - y_j)^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

POLE = 0.1  # distance of lam / d from 1 within which the factor is left out


@dataclass(frozen=True, eq=False)
class Eigenmap:
    """Eigenvectors of a graph Laplacian."""

    Y: Array  # (n, q) values at the fitted nodes
    lam: Array  # (q,) eigenvalues
    normalized: bool = True

    def extend(self, shares: Any, degrees: Array) -> Array:
        """Values (c, q) at new nodes.

        shares (c, n), dense or CSR, are the weights of their edges to the fitted nodes over their
        degrees (c,), so that rows sum to 1.
        """
        ratio, near = self._ratio(degrees)
        return np.asarray(shares @ self.Y) / np.where(near, 1.0, 1.0 - ratio)

    def left_out(self, degrees: Array) -> NDArray[np.bool_]:
        """(c, q) whether the factor 1 / (1 - lam / d) was left out, for being near its pole."""
        return np.broadcast_to(self._ratio(degrees)[1], (len(degrees), len(self.lam)))

    def _ratio(self, degrees: Array) -> tuple[Array, NDArray[np.bool_]]:
        """lam / d, and whether it is near its pole."""
        if self.normalized:
            ratio = self.lam[None, :]
            return ratio, np.abs(1.0 - ratio) < POLE
        with np.errstate(divide="ignore"):
            ratio = np.where(self.lam > 0.0, self.lam / degrees[:, None], 0.0)
        # Degrees of new nodes differ: beyond the pole the sign would be that of their number.
        return ratio, (np.abs(1.0 - ratio) < POLE) | (ratio > 1.0)
