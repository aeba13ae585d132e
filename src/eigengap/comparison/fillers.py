"""How any estimator imputes cells that were held out from it.

Models of this package know (`impute`), and so do imputers, whose `transform` gives the table back
without missing values. What only projects (`transform`, `inverse_transform`: scikit-learn's PCA)
imputes by iterated projection: start from the column means of its training rows, project, put the
projection into the held-out cells, repeat. The fixed point is the completion nearest to the model's
plane.
"""

from __future__ import annotations

import inspect
from copy import deepcopy
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.sources import like

SETTLED = 1e-6  # largest move of an imputed value, in units of its column, that ends the projection
MOST_PROJECTIONS = 500


def fill(model: Any, rows: Any, hidden: Array, means: Array) -> tuple[Array, Array | None] | None:
    """Imputed values (c, d), and their standard deviations where the model has them; None if it
    cannot impute.

    Parameters
    ----------
    rows : the table to impute as the model wants it, an array or a frame, NaN where missing
    hidden : (c, d) the same as an array
    means : (d,) of the training rows, where projection starts
    """
    if hasattr(model, "impute"):
        if "return_std" not in inspect.signature(model.impute).parameters:
            return np.asarray(model.impute(rows), dtype=np.float64), None
        mean, sd = model.impute(rows, return_std=True)
        return np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    if not hasattr(model, "transform"):
        return None
    imputed = _transformed(model, rows, hidden)
    if imputed is not None:
        return imputed, None
    if hasattr(model, "inverse_transform"):
        return _projected(model, rows, hidden, means), None
    return None


def _transformed(model: Any, rows: Any, hidden: Array) -> Array | None:
    """The imputed table of an imputer, whose observed values are unchanged; None of others."""
    try:
        out = model.transform(rows)
    except ValueError as error:
        if "NaN" in str(error):
            return None
        raise
    if getattr(out, "shape", None) != hidden.shape:
        return None
    imputed = np.asarray(out, dtype=np.float64)
    observed = ~np.isnan(hidden)
    same = np.allclose(imputed[observed], hidden[observed], rtol=1e-6, atol=0.0)
    return imputed if same and not np.isnan(imputed).any() else None


def _projected(model: Any, rows: Any, hidden: Array, means: Array) -> Array:
    missing = np.isnan(hidden)
    imputed = np.where(missing, means, hidden)
    unit = np.maximum(np.std(imputed, axis=0), np.finfo(np.float64).tiny)
    for _ in range(MOST_PROJECTIONS):
        scores = model.transform(like(rows, imputed))
        projected = np.asarray(model.inverse_transform(scores), dtype=np.float64)
        moved = np.where(missing, projected - imputed, 0.0)
        imputed = imputed + moved
        if np.max(np.abs(moved) / unit, initial=0.0) < SETTLED:
            break
    return imputed


def unfitted(estimator: Any) -> Any:
    """The estimator's parameters in a new object, as `sklearn.base.clone` makes it.

    scikit-learn's estimators know how (`__sklearn_clone__`); others are built again from
    `get_params`, and what has neither is copied as it is.
    """
    if isinstance(estimator, type):
        raise TypeError(
            f"{estimator.__name__} is a class; give an instance, e.g. {estimator.__name__}()"
        )
    if hasattr(estimator, "__sklearn_clone__"):
        return estimator.__sklearn_clone__()
    if hasattr(estimator, "get_params"):
        return type(estimator)(**deepcopy(estimator.get_params(deep=False)))
    return deepcopy(estimator)
