"""Fits inside others: of an imputer's model, of a class, of a model that is compared.

What is fitted inside are rows that were read, checked and perhaps rescaled already, as bare arrays.
The names of their columns come along in a source, for what the inner fit warns of or refuses.
"""

from __future__ import annotations

from typing import Any

from eigengap.linalg import Array
from eigengap.sources import ArraySource, Rows

Names = tuple[str, ...] | None


def fit_rows(
    estimator: Any,
    values: Rows,
    names: Names,
    *y: Any,
    weight: Array | None = None,
    cell_sd: Array | None = None,
) -> Any:
    """Fit the estimator to rows (n, d) whose columns messages call by `names`, and return it.

    An estimator of another package takes no source and gets the bare rows. The fitted estimator
    itself knows no names, for whoever fitted it will ask it with bare rows.
    """
    # Whether `fit` is one of ours, and not of a subclass that knows arrays only
    is_ours = str(getattr(type(estimator).fit, "__module__", "")).startswith("eigengap.")
    if names is None or not is_ours:
        given = {"sample_weight": weight, "cell_sd": cell_sd}
        return estimator.fit(values, *y, **{k: v for k, v in given.items() if v is not None})
    estimator.fit(ArraySource(values, weight=weight, cell_sd=cell_sd, names=names), *y)
    estimator.__dict__.pop("feature_names_in_", None)
    if (table := estimator.__dict__.get("table_")) is not None:  # with columns of several kinds
        estimator.table_ = table.with_names(None)
    return estimator
