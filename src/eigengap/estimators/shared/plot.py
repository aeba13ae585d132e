"""`estimator.plot`: the charts that mean something for an estimator.

Charts stand above estimators and need Altair; they are found by name when one is asked for.
"""

from __future__ import annotations

from functools import partial, update_wrapper
from importlib import import_module
from typing import Any

from sklearn.utils.validation import check_is_fitted

_ROWS = ("scores", "correlation_circle", "missingness")
_VARIABLES = ("biplot", "contributions", "cos2")
_GAUSSIAN = ("scree", *_ROWS, *_VARIABLES, "imputation", "novelty", "trace", "rank_criteria")

# By class, so that an estimator can say what it has before it is fitted.
_CHARTS: dict[str, tuple[str, ...]] = {
    "PCA": (*_GAUSSIAN, "spectrum"),
    "PPCA": (*_GAUSSIAN, "spectrum"),
    "FactorAnalysis": _GAUSSIAN,
    "BayesianPCA": (*_GAUSSIAN, "spectrum"),
    "MixturePPCA": ("mixture", "scores", "imputation", "trace", "missingness"),
    "ICA": (*_ROWS, *_VARIABLES, "trace", "rank_criteria"),
    "ClassicalMDS": ("scree", *_ROWS),
    "KernelPCA": ("scree", *_ROWS),
    "Isomap": ("scree", *_ROWS),
    "LaplacianEigenmaps": ("scree", *_ROWS),
    "MaximumVarianceUnfolding": ("scree", "trace", *_ROWS),
    "StructurePreservingEmbedding": _ROWS,
    "GPLVM": (*_ROWS, "imputation", "trace"),
    "Autoencoder": (*_ROWS, "imputation", "trace"),
    "Whitener": ("scree", *_ROWS, "rank_criteria"),
    "NoveltyDetector": ("novelty", "scree", *_ROWS, *_VARIABLES, "trace", "rank_criteria"),
    "LowRankImputer": ("imputation", "missingness", "trace"),
    "PPCAClassifier": ("mixture", "missingness"),
    "PPCARegressor": ("scree", "trace", "missingness"),
}
NAMES = tuple(sorted({name for names in _CHARTS.values() for name in names}))


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
                f"{type(self._estimator).__name__} has no {name}; {_listed(_having(name))} "
                f"{'has' if len(_having(name)) == 1 else 'have'} it"
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
    for cls in type(estimator).__mro__:
        if cls.__name__ in _CHARTS:
            return tuple(sorted(_CHARTS[cls.__name__]))
    return ()


def require_fitted(estimator: Any) -> None:
    """Refuse an estimator that has not been fitted, in scikit-learn's words."""
    check_is_fitted(estimator)


def _having(name: str) -> list[str]:
    return [kind for kind, names in _CHARTS.items() if name in names]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
