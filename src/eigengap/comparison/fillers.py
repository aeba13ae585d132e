"""How any estimator fills cells that were hidden from it.

Models of this package know (`impute`), and so do imputers, whose `transform` gives the table back
without gaps. What only projects (`transform`, `inverse_transform`: scikit-learn's PCA) fills by
iterated projection: start from the column means of its training rows, project, put the projection
into the hidden cells, repeat. The fixed point is the completion nearest to the model's plane.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources import like

SETTLED = 1e-6  # largest move of a filled cell, in units of its column, that ends the projection
MOST_PROJECTIONS = 500


def fill(model: Any, rows: Any, hidden: Array, means: Array) -> tuple[Array, Array | None] | None:
    """Filled values (c, d), and their standard deviations where the model has them; None if it
    cannot fill.

    Parameters
    ----------
    rows : the table to fill as the model wants it, an array or a frame, NaN where unseen
    hidden : (c, d) the same as an array
    means : (d,) of the training rows, where projection starts
    """
    if hasattr(model, "impute"):
        return _imputed(model, rows)
    if not hasattr(model, "transform"):
        return None
    filled = _transformed(model, rows, hidden)
    if filled is not None:
        return filled, None
    if hasattr(model, "inverse_transform"):
        return _projected(model, rows, hidden, means), None
    return None


def _imputed(model: Any, rows: Any) -> tuple[Array, Array | None]:
    if "return_std" in inspect.signature(model.impute).parameters:
        filled, sd = model.impute(rows, return_std=True)
        return np.asarray(filled, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    return np.asarray(model.impute(rows), dtype=np.float64), None


def _transformed(model: Any, rows: Any, hidden: Array) -> Array | None:
    """The table that an imputer gives back: no gaps, seen cells as they were. Else None."""
    try:
        out = model.transform(rows)
    except ValueError as error:
        if "NaN" in str(error):
            return None
        raise
    if getattr(out, "shape", None) != hidden.shape:
        return None
    filled = np.asarray(out, dtype=np.float64)
    observed = ~np.isnan(hidden)
    same = np.allclose(filled[observed], hidden[observed], rtol=1e-6, atol=0.0)
    return filled if same and not np.isnan(filled).any() else None


def _projected(model: Any, rows: Any, hidden: Array, means: Array) -> Array:
    missing = np.isnan(hidden)
    filled = np.where(missing, means, hidden)
    unit = np.maximum(np.std(filled, axis=0), np.finfo(np.float64).tiny)
    for _ in range(MOST_PROJECTIONS):
        scores = model.transform(like(rows, filled))
        projected = np.asarray(model.inverse_transform(scores), dtype=np.float64)
        moved = np.where(missing, projected - filled, 0.0)
        filled = filled + moved
        if np.max(np.abs(moved) / unit, initial=0.0) < SETTLED:
            break
    return filled


def covered(truth: Array, filled: Array, sd: Array, quantile: float) -> NDArray[np.bool_]:
    """Whether filled -+ quantile sd encloses the truth, cell by cell."""
    return np.abs(truth - filled) <= quantile * sd
