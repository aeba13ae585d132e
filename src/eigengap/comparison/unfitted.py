"""A copy of any estimator as it was before it was fitted, without importing scikit-learn."""

from __future__ import annotations

from copy import deepcopy
from typing import Any


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
