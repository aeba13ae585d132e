"""Column by column: what centring and normalising do to rows, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """x -> (x - mean) / scale, and back. The diagonal case of `AffineMap`; a gap stays a gap."""

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
