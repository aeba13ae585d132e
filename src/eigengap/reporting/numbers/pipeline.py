"""A pipeline in the report: the model at its end, and the table as it reaches that model."""

from __future__ import annotations

import copy
from os import PathLike
from typing import Any

import numpy as np

from eigengap.reporting.words import clean
from eigengap.sources import Source, is_dask, library_of, like


def is_pipeline(estimator: Any) -> bool:
    """Whether it is scikit-learn's Pipeline, or made like it."""
    return hasattr(estimator, "steps") and hasattr(estimator, "named_steps")


def last_of(pipeline: Any) -> Any:
    """The fitted estimator at the end of a pipeline."""
    last = pipeline.steps[-1][1]
    if not hasattr(last, "get_params"):
        raise ValueError(
            f"the last step of this pipeline is {last!r}, of which there is nothing to report; "
            "report pipeline[:k] that ends with a model"
        )
    return last


def handed_over(pipeline: Any, X: Any) -> tuple[Any, Any, str]:
    """The last estimator with names for its columns, the table that it gets, and what to say."""
    last = last_of(pipeline)
    if len(pipeline.steps) == 1:
        return last, X, ""
    if isinstance(X, str | PathLike | Source) or is_dask(X):
        raise ValueError(
            f"the steps before {type(last).__name__} take a table in memory: read the file first, "
            "e.g. pandas.read_csv(path), and give the array or frame"
        )
    before = pipeline[:-1]
    table = before.transform(X)
    steps = ", ".join(clean(type(step).__name__) for _, step in before.steps)
    said = (
        f"{clean(type(last).__name__)} is the last step of a pipeline: columns are shown as "
        f"{steps} handed them over, in the units that they have there."
    )
    names = _names(last, before)
    if names is None:
        return last, table, said
    named = copy.copy(last)
    named.feature_names_in_ = np.array(names, dtype=object)
    if isinstance(table, np.ndarray) and library_of(X) is not None:
        table = like(X, table, columns=names)
    return named, table, said


def colour_of(color: Any, X: Any) -> Any:
    """The values by which points are coloured, where a column of the first table is named."""
    if isinstance(color, str) and library_of(X) is not None and color in list(X.columns):
        return np.asarray(X[color])
    return color


def _names(last: Any, before: Any) -> list[str] | None:
    """Of the columns that the last step gets; None where nobody knows."""
    if hasattr(last, "feature_names_in_"):
        return [str(name) for name in last.feature_names_in_]
    try:
        names = [str(name) for name in before.get_feature_names_out()]
    except (AttributeError, ValueError):
        return None
    return names if len(names) == last.n_features_in_ == len(set(names)) else None
