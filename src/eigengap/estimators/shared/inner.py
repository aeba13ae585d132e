"""Models that estimators fit inside of themselves: for imputation, classes, and joint tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from eigengap.estimators.factor_analysis import FactorAnalysis
from eigengap.estimators.ppca import PPCA
from eigengap.estimators.shared.base import (
    AcceptsMissing,
    KindsOfColumns,
    coded_of_new,
    keep_features,
    require_names,
    source_of_new,
)
from eigengap.estimators.shared.display import Shown
from eigengap.estimators.shared.linear import LOOSE
from eigengap.estimators.shared.sklearn_compat import HasMethods, _VisualBlock
from eigengap.exceptions import SentinelWarning
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import IndependentColumns
from eigengap.models.gaussian.predictive import PlugIn
from eigengap.registry import scores_log_density
from eigengap.runtime.warnings import captured, warn, without
from eigengap.selection.coded_table import CodedTable
from eigengap.selection.inner_fits import fit_rows
from eigengap.selection.prediction import SEARCH_STEPS
from eigengap.sources import ArraySource, Source, as_source, in_memory

# Where complete rows are needed ---------------------------------------------------------------


def imputing_model(rows: Source | Array, owner: Any = None) -> PPCA:
    """PPCA of the standardised columns, which imputes bare rows (n, d).

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


# Of the classifier and the regressor ----------------------------------------------------------

# Parameters that both hand on to PPCA or FactorAnalysis, besides n_components.
HANDED_ON = ("tol", "max_iter", "n_init", "random_state", "verbose")


class Predictor(KindsOfColumns, AcceptsMissing, Shown, BaseEstimator):
    """Base of the classifier and the regressor: they fit densities, and Bayes' rule predicts.

    With `columns` other than "numeric" they fit coded rows, behind columns that they learn.
    """

    _methods: tuple[str, ...]  # that `estimator` must have
    _target: str  # what y holds

    @property
    def _adapts(self) -> bool:
        """Whether the number of components is found by cross-validation."""
        return self.estimator is None and self.n_components == "auto"

    def _read(self, X: Any, sample_weight: Any) -> tuple[CodedTable | None, ArraySource]:
        """The rows of a fit, and what is known of their columns unless they are numbers."""
        if not self._takes_kinds:
            return None, self._rows(X, sample_weight)
        if self.estimator is not None:
            raise ValueError(
                f'estimator={type(self.estimator).__name__} goes with columns="numeric": columns '
                "of several kinds are fitted by PPCA or FactorAnalysis, as noise says"
            )
        table, rows = CodedTable.learned(X, self.columns, sample_weight, self.missing_values)
        require_names(X)
        return table, in_memory(rows)

    def _new(self, X: Any) -> Source:
        """Rows to be predicted."""
        if self.table_ is None:
            return source_of_new(self, X, missing_values=self.missing_values)
        return coded_of_new(self, X, self.table_)

    def _keep_columns(self, X: Any, source: Source, table: CodedTable | None) -> None:
        keep_features(self, X, source if table is None else table)
        self.__dict__.pop("table_", None)  # of an earlier fit
        if table is not None:
            self.table_ = table

    def _rows(self, X: Any, sample_weight: Any) -> ArraySource:
        how = {"sample_weight": sample_weight, "missing_values": self.missing_values}
        return in_memory(as_source(X, **how))

    def _require_target(self, y: Any) -> None:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                f"is None: it holds {self._target}"
            )

    def _density(self, scale: bool) -> Any:
        """An unfitted estimator as the parameters ask for it.

        `estimator`, where given, is cloned and must have `_methods`; else `noise` decides.
        """
        given = self.estimator
        if given is None:
            kind = PPCA if self.noise == "isotropic" else FactorAnalysis
            options = {name: getattr(self, name) for name in HANDED_ON}
            return kind(self.n_components, scale=scale, **options)
        what = f"estimator={type(given).__name__}"
        if not HasMethods(list(self._methods)).is_satisfied_by(given):
            raise ValueError(
                f"{what} must have the methods {', '.join(self._methods)}: PPCA, FactorAnalysis, "
                "BayesianPCA and MixturePPCA have"
            )
        if not scores_log_density(given):
            raise ValueError(
                f"{what} is no density: its score_samples is no log-likelihood. PPCA, "
                "FactorAnalysis, BayesianPCA and MixturePPCA are"
            )
        if self.n_components != "auto":
            raise ValueError(
                f"n_components={self.n_components} has no effect when an estimator is given; "
                "set it on the estimator"
            )
        return clone(given)

    def _loose(self, q: int) -> dict[str, Any]:
        """Parameters of the fits of q components that cross-validation compares."""
        return {
            "n_components": q,
            "tol": max(self.tol, LOOSE),
            "max_iter": min(self.max_iter, SEARCH_STEPS),
            "n_init": 1,
            "verbose": False,
        }

    def _keep_errors(self, errors: dict[int, float] | None) -> None:
        self.__dict__.pop("cv_errors_", None)  # of an earlier fit that had to choose
        if errors is not None:
            self.cv_errors_ = errors


@contextmanager
def warnings_about(what: str, but: tuple[type[Warning], ...] = ()) -> Iterator[None]:
    """Repeat warnings of the inner fit, except some kinds, and name the fit."""
    with captured() as heard:
        yield
    for one in heard:
        if not issubclass(one.category, but):
            warn(f"{what}: {one.message}", one.category)


# Of the imputer -------------------------------------------------------------------------------


class StoppedFactorAnalysis(FactorAnalysis):
    """Factor analysis stopped before its maximum; users know it as FactorAnalysis.

    Standard deviations are those of the model itself (see `PlugIn`), and
    `std_factors_` of LowRankImputer widens them.
    """

    _public_name = "FactorAnalysis"
    _stops_early = True

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        own = type(self).__name__
        return f"{self._public_name}{super().__repr__(N_CHAR_MAX + len(own))[len(own) :]}"

    def _sk_visual_block_(self) -> Any:
        """For scikit-learn's diagram, which falls back to the name of the class without it."""
        return _VisualBlock("single", self, names=self._public_name, name_details=str(self))

    def _predictive(self) -> PlugIn:
        return PlugIn(self.model_, self.evidence_)


class ColumnMeans(BaseEstimator):
    """Imputation by the column mean, where nothing predicts better."""

    _public_name = "column means"
    n_components_ = 0
    n_iter_ = 1

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        source = as_source(X, sample_weight=sample_weight)
        found = IndependentColumns.of(source.collect(), source.weight)
        self.mean_, self.degrees_, self.scale_ = found.mean, found.degrees, found.scale
        return self

    def impute(self, X: Array, return_std: bool = False) -> Any:
        imputed = np.where(np.isnan(X), self.mean_, X).astype(X.dtype)
        if not return_std:
            return imputed
        std = IndependentColumns(self.mean_, self.degrees_, self.scale_).std()
        return imputed, np.where(np.isnan(X), std, 0.0).astype(X.dtype)

    def sample_imputations(self, X: Array, m: int, random_state: Any = None) -> Iterator[Array]:
        rng = check_random_state(random_state)
        for _ in range(m):
            drawn = self.mean_ + self.scale_ * rng.standard_t(self.degrees_, size=X.shape)
            yield np.where(np.isnan(X), drawn, X).astype(X.dtype)
