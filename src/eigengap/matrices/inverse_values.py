"""What singular values become in an inverse: 1 / s, or s / (s^2 + ridge) under a Gaussian prior."""

from __future__ import annotations

from math import isfinite
from numbers import Real

import numpy as np

from eigengap.linalg import Array


def inverse_values(s: Array, ridge: float = 0.0) -> Array:
    """1 / (s + ridge / s) of positive s (k,), which neither over- nor underflows in the middle."""
    if not isinstance(ridge, Real) or not (isfinite(ridge) and ridge >= 0.0):
        raise ValueError(f"ridge is {ridge!r}; it has to be a number, 0 or larger")
    with np.errstate(over="ignore", divide="ignore"):
        inverse = 1.0 / (s + ridge / s)
    if not np.all(np.isfinite(inverse)):
        raise ValueError(
            f"the pseudo-inverse overflows: a singular value is {s[-1]:.3g}; rescale the matrix, "
            "for instance X * 1e20, whose pseudo-inverse is 1e20 times smaller"
        )
    return np.asarray(inverse)
