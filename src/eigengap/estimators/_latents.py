"""Coordinates as callers give them back to `inverse_transform`."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.linalg import Array


def as_latents(X: Any, count: int, what: str) -> Array:
    """X (n, count) in float64, or float32 where it is; `what` the columns are, for a message."""
    Z = np.asarray(X)
    if Z.dtype != np.float32:
        Z = Z.astype(np.float64, copy=False)
    if Z.ndim != 2 or Z.shape[1] != count:
        raise ValueError(
            f"inverse_transform expects one column for each of the {count} {what}, as transform "
            f"returns them, got shape {Z.shape}"
        )
    return Z
