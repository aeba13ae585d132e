"""A map of rows with one hidden layer, as a value: z = W0'x + W2'tanh(W1'x + b1) + b2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class Perceptron:
    """One layer of h hyperbolic tangents plus a linear map."""

    W0: Array  # (d, q)
    W1: Array  # (d, h)
    b1: Array  # (h,)
    W2: Array  # (h, q)
    b2: Array  # (q,)

    def forward(self, X: Array) -> Array:
        """Coordinates (n, q) of the rows X (n, d)."""
        return np.asarray(X @ self.W0 + np.tanh(X @ self.W1 + self.b1) @ self.W2 + self.b2)
