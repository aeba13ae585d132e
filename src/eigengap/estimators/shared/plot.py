"""`estimator.plot`: the charts that mean something for an estimator.

Charts stand above estimators and need Altair; they are found by name when one is asked for.
"""

from __future__ import annotations

from functools import partial, update_wrapper
from importlib import import_module
from typing import Any

from sklearn.utils.validation import check_is_fitted

from eigengap.registry import ESTIMATORS, entry_of, names_with

NAMES = tuple(sorted({name for entry in ESTIMATORS for name in entry.charts}))


class Plots:
    """Charts of one estimator: `estimator.plot.scree()` is `eigengap.plots.scree(estimator)`."""

    __slots__ = ("_estimator",)

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def __getattr__(self, name: str) -> Any:
        if name not in NAMES:
            raise AttributeError(
                f"there is no chart {name!r}; {type(self._estimator).__name__} has "
                f"{', '.join(charts_of(self._estimator))}"
            )
        if name not in charts_of(self._estimator):
            raise AttributeError(
                f"{type(self._estimator).__name__} has no {name}; {names_with(name)} have it"
            )
        draw = getattr(import_module("eigengap.plots"), name)
        if name == "missingness":  # of the table alone, with the columns of the fit
            return update_wrapper(partial(draw, estimator=self._estimator), draw)
        return update_wrapper(partial(draw, self._estimator), draw)

    def __dir__(self) -> list[str]:
        return list(charts_of(self._estimator))

    def __repr__(self) -> str:
        names = ", ".join(charts_of(self._estimator))
        return f"<charts of {type(self._estimator).__name__}: {names}>"


def charts_of(estimator: Any) -> tuple[str, ...]:
    """Names of the charts that an estimator has, sorted."""
    return tuple(sorted(entry_of(estimator).charts))


def require_fitted(estimator: Any) -> None:
    """Refuse an estimator that has not been fitted, in scikit-learn's words."""
    check_is_fitted(estimator)
