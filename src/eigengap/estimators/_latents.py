"""Coordinates as callers give them back to `inverse_transform`."""

from __future__ import annotations

from collections.abc import Callable
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
    if np.isinf(Z).any():
        i, k = map(int, np.argwhere(np.isinf(Z))[0])
        raise ValueError(
            f"inverse_transform got {Z[i, k]} at row {i}, column {k}: infinite values are not "
            "accepted"
        )
    return Z


def decoded(Z: Array, decode: Callable[[Array], Array]) -> Array:
    """Rows at the latents Z, in the dtype of Z; one that overflows is refused by its number.

    A NaN in a row of Z may leave one in the row that is decoded.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        rows = decode(Z).astype(Z.dtype, copy=False)
        total = np.sum(rows)
    if not np.isfinite(total):
        bad = ~np.isfinite(rows).all(axis=1) & np.isfinite(Z).all(axis=1)
        if bad.any():
            raise ValueError(
                f"row {int(np.argmax(bad))} has coordinates so large that inverse_transform "
                f"overflows {Z.dtype}: leave it out"
            )
    return rows
