"""Number and names of the columns, as scikit-learn keeps them, for tables of every kind.

scikit-learn looks at X itself; a path, a source or a Dask collection says nothing to it, and there
the source that was made of it answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from eigengap.estimators._sklearn_compat import _get_feature_names
from eigengap.printable import bare
from eigengap.sources import (
    FieldSource,
    Source,
    as_source,
    field_like,
    in_memory_table,
    is_field,
    is_field_path,
    like,
    quote,
    require_unique,
)
from eigengap.wording import words

MOST_NAMED = 5  # columns in one message
SAME_CELLS = (
    " Another field has other cells without a value: give the DataArray itself, or "
    "source.same_columns(X) with the source of the fit."
)


def keep_features(estimator: BaseEstimator, X: Any, source: Source) -> None:
    """Remember the columns of X as those of the fit; only after it, for a fit may fail."""
    if in_memory_table(X):
        _validate(estimator, X, source, reset=True)
        return
    estimator.n_features_in_ = source.n_features
    if source.names is not None:
        estimator.feature_names_in_ = np.array(source.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):  # of an earlier fit
        del estimator.feature_names_in_


def require_names(X: Any) -> None:
    """scikit-learn's refusal of names that are none, before the work."""
    with _printable():
        _get_feature_names(X)


def _validate(estimator: BaseEstimator, X: Any, source: Source, *, reset: bool) -> None:
    require_unique(source.names)
    with _printable():
        validate_data(estimator, X, reset=reset, skip_check_array=True)


@contextmanager
def _printable() -> Iterator[None]:
    """What scikit-learn says of foreign names, without what a terminal would act on."""
    try:
        yield
    except ValueError as error:
        said = "\n".join(map(bare, str(error).split("\n")))
        if said == str(error):
            raise
        raise type(error)(said) from None


def source_of_new(estimator: BaseEstimator, X: Any, **how: Any) -> Source:
    """`as_source` of new rows, refused where their columns are not those of the fit.

    A field may show cells that the fit never saw, and the other way round: of it the columns of the
    fit are taken.
    """
    if is_field(X) or is_field_path(X):
        how["columns"] = list(estimator.feature_names_in_)
    source = as_source(X, **how)
    check_features(estimator, X, source)
    return source


def as_fitted(values: NDArray[Any], float32: bool) -> NDArray[Any]:
    """A fitted attribute in the type of the rows of the fit."""
    return values.astype(np.float32) if float32 else values


def like_input(estimator: BaseEstimator, X: Any, values: NDArray[Any]) -> Any:
    """Values (n, d) as the type of X: a frame for a frame, a field for a field."""
    if isinstance(X, FieldSource):
        return X.to_field(values)
    if is_field(X) or is_field_path(X):
        return field_like(X, values, list(estimator.feature_names_in_))
    return like(X, values)


def check_features(estimator: BaseEstimator, X: Any, source: Source) -> None:
    """Refuse rows whose columns are not those of the fit."""
    if in_memory_table(X):
        _validate(estimator, X, source, reset=False)
        return
    name, d = type(estimator).__name__, estimator.n_features_in_
    if source.n_features != d:
        raise ValueError(
            f"{words().X} has {source.n_features} features, but {name} is expecting {d} "
            "features as input." + (SAME_CELLS if isinstance(source, FieldSource) else "")
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None or source.names is None or list(fitted) == list(source.names):
        return
    unknown = [c for c in source.names if c not in set(fitted)]
    if unknown:
        listed = ", ".join(map(quote, unknown[:MOST_NAMED]))
        raise ValueError(
            f"The feature names should match those that were passed during fit: {name} has not "
            f"seen {listed}{', ...' if len(unknown) > MOST_NAMED else ''}. Choose the columns of "
            "the fit with open_source(path, columns=[...])"
        )
    raise ValueError(
        "The feature names should match those that were passed during fit: they are the same, in "
        f"another order. Use open_source(path, columns=list({name.lower()}.feature_names_in_))"
    )
