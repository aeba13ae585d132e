"""An affine map as a value: what PCA, whitening and ICA do to complete rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x -> A (x - mean), and back by x = mean + B z.

    Attributes
    ----------
    A : (q, d) rows give the coordinates
    B : (d, q) columns give the directions; B A is the identity on the span of B
    mean : (d,)
    """

    A: Array
    B: Array
    mean: Array

    def forward(self, X: Any) -> Array:
        """Coordinates (n, q) of complete rows X (n, d), dense or sparse."""
        if isinstance(X, np.ndarray):
            return (X - self.mean) @ self.A.T
        return np.asarray(X @ self.A.T) - self.mean @ self.A.T  # sparse: centre the small side

    def backward(self, Z: Array) -> Array:
        """Rows (n, d) at the coordinates Z (n, q)."""
        return Z @ self.B.T + self.mean


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """x -> (x - mean) / scale, and back. The diagonal `AffineMap`; missing values stay so."""

    mean: Array  # (d,)
    scale: Array  # (d,) positive

    @property
    def A(self) -> Array:
        """(d, d) as in `AffineMap`."""
        return np.diag(1.0 / self.scale)

    @property
    def B(self) -> Array:
        """(d, d) as in `AffineMap`."""
        return np.diag(self.scale)

    def forward(self, X: Any) -> Array:
        """Rows X (n, d), dense or sparse; what comes out is dense."""
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        return np.asarray((dense - self.mean) / self.scale)

    def backward(self, Z: Array) -> Array:
        """The rows (n, d) that `forward` takes to Z."""
        return np.asarray(Z * self.scale + self.mean)
