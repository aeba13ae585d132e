"""The model that imputes missing values where a method needs complete rows."""

from __future__ import annotations

from typing import Any

from eigengap.estimators.ppca import PPCA
from eigengap.exceptions import SentinelWarning
from eigengap.linalg import Array
from eigengap.runtime.warnings import without
from eigengap.selection.inner_fits import fit_rows
from eigengap.sources import Source


def imputing_model(rows: Source | Array, owner: Any = None) -> PPCA:
    """PPCA of the standardised columns, to be asked with bare rows (n, d).

    The names of the columns are those of the source, or of the fitted owner of an array. Codes for
    missing values are not looked for: whoever read the rows has done so.
    """
    model = PPCA("auto", scale=True)
    with without(SentinelWarning):
        if isinstance(rows, Source):
            model.fit(rows)
            model.__dict__.pop("feature_names_in_", None)
        else:
            fitted = getattr(owner, "feature_names_in_", None)
            fit_rows(model, rows, None if fitted is None else tuple(map(str, fitted)))
    return model
