"""Regression by a joint linear-Gaussian model of X and y, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import nan
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import norm
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from eigengap.estimators.shared.base import keep_parameters, map_rows
from eigengap.estimators.shared.density import warn_of_few
from eigengap.estimators.shared.inner import Predictor, warnings_about
from eigengap.estimators.shared.sklearn_compat import HasMethods, _fit_context
from eigengap.exceptions import FewCellsWarning, HeywoodWarning, SentinelWarning
from eigengap.fitting.columns.kinds import Kind
from eigengap.inference.intervals import require_level
from eigengap.linalg import Array
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.runtime.warnings import without
from eigengap.selection.coded_table import CodedTable, has_levels_alone
from eigengap.selection.inner_fits import Names, fit_rows
from eigengap.selection.prediction import Predict, best, prediction_errors
from eigengap.sources import ArraySource, Rows, as_source, column, warn_of_codes
from eigengap.wording import words

# Warnings of the joint fit that are left out: a column that is itself a factor predicts as well;
# codes are looked for before; of columns observed in few rows only y matters.
SETTLED = (HeywoodWarning, SentinelWarning, FewCellsWarning)


class PPCARegressor(MultiOutputMixin, RegressorMixin, Predictor):
    """y given the observed part of x under a joint model of both, with its standard deviation.

        (x, y) = W z + mu + e,   E[y | x] = mu_y + W_y E[z | x],   z ~ N(0, I), e ~ N(0, diag(psi))

    Latent variables that explain X and y together: principal component regression that weighs
    what it keeps by its noise, and that needs no complete rows. Values may be missing in X, in y
    and in new rows; rows without any y still contribute to the model of X.

    Parameters
    ----------
    n_components : int, float in (0, 1) or "auto", default="auto"
        Number of components; the share of the variance that they must explain; or the
        smallest number whose squared error on held-out y is within 1 % of the least, by
        cross-validation in 5 folds (`cv_errors_`). With
        d - 1 of d columns in all, the joint density is unrestricted and the prediction that of
        least squares.
    noise : {"diagonal", "isotropic"}, default="diagonal"
        A noise variance for each column (factor analysis), since y has one of its own, or one
        for all (PPCA).
    scale : bool, default=True
        Whether to divide every column by its standard deviation first. On by default: the units of
        predictors and targets have nothing to do with each other.
    estimator : estimator with `fit` and `impute(X, return_std)`, default=None
        Used for the joint table instead, e.g. BayesianPCA or MixturePPCA. Of the other parameters
        only missing_values applies then.
    missing_values : float or list of float, default=nan
        Values that mark a missing value in X or y, besides NaN.
    target_kind : kind of column, default="continuous"
        What y holds, where `columns` is not "numeric": "positive" or Bounded(0, 100), for instance,
        keeps predictions and intervals within its range. A kind of numbers or counts.
    tol, max_iter, n_init, random_state, verbose
        As in PPCA and FactorAnalysis.

    Attributes
    ----------
    estimator_ : the fitted model of the joint table, y's columns last
    n_components_ : int
    n_targets_ : int
    cv_errors_ : dict of int to float
        Held-out squared error, as a share of y's variance, by number of components. Only if
        n_components="auto".
    coef_, intercept_
        E[y | x] of a complete row is coef_ @ x + intercept_; where `columns` is "numeric".
    kinds_, levels_ : dict
        The kind of every column of X, and the levels of those that have some; only where `columns`
        is not "numeric".
    n_features_in_, feature_names_in_

    Notes
    -----
    Why "auto" is not that of FactorAnalysis: criteria for the rank of a table count what describes
    all columns, not what predicts y. On diabetes held-out R2 is 0.50 by cross-validation and 0.35
    by parallel analysis, on WDBC's last column 0.92 and 0.76 (benchmarks/regression.py).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from eigengap import PPCARegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X[::5, 2] = np.nan
    >>> y[::7] = np.nan
    >>> model = PPCARegressor(n_components=5).fit(X, y)
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> mean.shape, bool(np.all(std > 0))
    ((3,), True)
    """

    _methods = ("fit", "impute")
    _target = "what is to be predicted, NaN where unknown"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(list(_methods)), None],
        "target_kind": [str, Kind],
    }

    def __init__(
        self,
        n_components: int | float | str = "auto",
        *,
        noise: str = "diagonal",
        scale: bool = True,
        estimator: Any = None,
        missing_values: Any = nan,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_init: int = 1,
        random_state: Any = None,
        verbose: bool | int = False,
        columns: Any = "numeric",
        target_kind: Any = "continuous",
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the joint model of X and y.

        Parameters
        ----------
        y : array of shape (n_samples,) or (n_samples, n_targets)
            NaN where it is unknown.
        """
        table, everything = self._read(X, sample_weight)
        Y, flat = self._targets(y)
        check_consistent_length(np.empty(everything.n_rows or 0), Y)
        source, Y = _present(everything, Y)
        (source if table is None else table.shown(source)).require_fit(min_rows=2)
        _require_targets(Y)
        d, k = source.n_features, Y.shape[1]
        targets = ArraySource(Y, names=("y",) if k == 1 else tuple(f"y{j}" for j in range(k)))
        if table is None:
            warn_of_codes(source)
        warn_of_codes(targets)
        joint, names = _side_by_side(source.collect(), Y), _joint_names(source, targets)
        how: _Joint = _Numbers(k, self.scale, names)
        if table is not None:
            wider = with_targets(table, Y, self.target_kind, source.weight)
            how = _Kinds(k, wider, self.columns)
        estimator, errors = self._density(how.scale), None
        if self._adapts:
            dense = joint if isinstance(joint, np.ndarray) else joint.toarray()
            errors = prediction_errors(partial(self._predictor, how), dense, k, source.weight)
            if errors:
                estimator.set_params(n_components=best(errors))
        first, last = column(names, d), column(names, d + k - 1)
        columns = f"column {first} is" if k == 1 else f"columns {first} to {last} are"
        with warnings_about(f"joint table of X and y ({columns} y)", but=SETTLED):
            how.fit(estimator, joint, source.weight)
        if self.estimator is None and self.noise == "diagonal":
            warn_of_few(targets, estimator.n_components_)
        self._keep_columns(X, source, table)
        self._keep_errors(errors)
        self.estimator_, self.n_targets_, self._flat = estimator, k, flat
        return self

    def _targets(self, y: Any) -> tuple[Array, bool]:
        """y as a table (n, k), and whether it was given as a vector."""
        self._require_target(y)
        shape = y.shape if hasattr(y, "shape") else np.shape(np.asarray(y))
        flat = len(shape) == 1
        table = np.asarray(y)[:, None] if flat else y
        try:
            values = as_source(table, missing_values=self.missing_values).collect()
        except ValueError as error:
            reason = str(error).replace("Input X", "Input y").partition(" Choose the")[0]
            if "(text, " in reason:
                reason += f" To predict classes, take {words().model('PPCAClassifier')}"
            raise ValueError(f"y must hold numbers, NaN where unknown: {reason}") from None
        dense = values if isinstance(values, np.ndarray) else values.toarray()
        return np.asarray(dense, dtype=np.float64), flat

    def _predictor(self, how: _Joint, q: int) -> Predict:
        def predict(training: Array, weight: Array | None, X: Array) -> Array:
            estimator = self._density(how.scale).set_params(**self._loose(q))
            how.fit(estimator, training, weight)
            return how.moments(estimator, X)

        return predict

    @property
    def _how(self) -> _Joint:
        """How the fitted joint model is asked."""
        k = self.n_targets_
        return _Numbers(k) if self.table_ is None else _Kinds(k, self.estimator_.table_)

    # Predicting ----------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected y given the observed part of each row.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return the standard deviations of y too, its noise included.

        Returns
        -------
        mean : array of y's shape, (n_samples,) or (n_samples, n_targets)
        std : array of the same shape, only if return_std
        """
        check_is_fitted(self, "estimator_")
        k, moments = self.n_targets_, partial(self._how.moments, self.estimator_)
        found = map_rows(self._new(X), partial(moments, return_std=return_std))
        tables = [found[:, :k], found[:, k:]] if return_std else [found]
        shaped = [self._shaped(table) for table in tables]
        return tuple(shaped) if return_std else shaped[0]

    def intervals(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of an interval for y, given the observed part of each row.

        The truth lies below and above with equal probability. With columns of several kinds the
        ends lie in the range of y, and as far from the median as its distribution is skewed.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Probability with which y lies inside.

        Returns
        -------
        low, high : arrays of y's shape, (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self, "estimator_")
        require_level(level)
        k, ends = self.n_targets_, partial(self._how.ends, self.estimator_)
        found = map_rows(self._new(X), partial(ends, level=level))
        return self._shaped(found[:, :k]), self._shaped(found[:, k:])

    def _shaped(self, table: Array) -> Array:
        return table[:, 0] if self._flat else table

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2 of the prediction, averaged over targets; entries of y that are NaN are left out.

        Parameters
        ----------
        y : array of shape (n_samples,) or (n_samples, n_targets)
        """
        truth = self._targets(y)[0]
        predicted = np.asarray(self.predict(X)).reshape(-1, self.n_targets_)
        if truth.shape != predicted.shape:
            raise ValueError(
                f"y has shape {truth.shape}, but {len(predicted)} rows of {self.n_targets_} "
                "target(s) are predicted"
            )
        n = len(truth)
        w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if w.shape != (n,):
            raise ValueError(f"sample_weight has shape {w.shape}, but X has {n} rows")
        observed = ~np.isnan(truth)
        scores = [
            r2_score(truth[rows, j], predicted[rows, j], sample_weight=w[rows])
            for j, rows in enumerate(observed.T)
            if rows.any()
        ]
        if not scores:
            raise ValueError("y has no value: every entry is NaN, so there is nothing to score")
        return float(np.mean(scores))

    # Fitted attributes ---------------------------------------------------------------------

    n_components_ = property(attrgetter("estimator_.n_components_"))
    n_iter_ = property(attrgetter("estimator_.n_iter_"))

    @property
    def coef_(self) -> Array:
        """(n_features,), or (n_targets, n_features)."""
        coef = self._slopes()
        return coef[0] if self._flat else coef

    @property
    def intercept_(self) -> Any:
        """A number, or (n_targets,)."""
        slopes = self._slopes()
        d, mu = self.n_features_in_, self.estimator_.model_.mu
        intercept = mu[d:] - slopes @ mu[:d]
        return float(intercept[0]) if self._flat else intercept

    def _slopes(self) -> Array:
        d, model = self.n_features_in_, self.estimator_.model_
        if not isinstance(model, LinearGaussian):
            raise AttributeError(
                f"the prediction of {type(self.estimator_).__name__} is not linear in X, so that "
                "it has no coefficients"
            )
        return model.W[d:] @ model.marginal(np.arange(d)).encoder().A


@dataclass(frozen=True)
class _Numbers:
    """The joint table of numbers, and the questions to its model."""

    k: int  # columns of y, the last ones
    scale: bool = True
    names: Names = None

    def fit(self, estimator: Any, joint: Rows, weight: Array | None) -> None:
        fit_rows(estimator, joint, self.names, weight=weight)

    def moments(self, estimator: Any, X: Array, return_std: bool = False) -> Array:
        """(n, k) means of y given rows of X, and (n, 2 k) their standard deviations too."""
        imputed = estimator.impute(_with_missing(X, self.k), return_std=return_std)
        tables = imputed if return_std else (imputed,)
        return np.hstack([table[:, -self.k :] for table in tables])

    def ends(self, estimator: Any, X: Array, level: float) -> Array:
        """(n, 2 k) of the intervals of y."""
        rows = _with_missing(X, self.k)
        if hasattr(estimator, "intervals"):
            tables = estimator.intervals(rows, level)
        else:  # of another package, whose deviations are taken for Gaussian
            mean, std = estimator.impute(rows, return_std=True)
            reach = norm.ppf(0.5 + level / 2.0) * std
            tables = mean - reach, mean + reach
        return np.hstack([table[:, -self.k :] for table in tables])


@dataclass(frozen=True)
class _Kinds:
    """The joint table of columns of several kinds."""

    k: int
    table: CodedTable
    columns: Any = "auto"  # as the user asked for them
    scale: bool = False

    def fit(self, estimator: Any, joint: Rows, weight: Array | None) -> None:
        rows = ArraySource(self._ordered(joint), weight=weight, names=self.table.used_names)
        estimator.set_params(columns=self.columns)._fit_table(rows, self.table)

    def moments(self, estimator: Any, X: Array, return_std: bool = False) -> Array:
        rows, last = self._ordered(_with_missing(X, self.k)), self._first + self.k
        mean, std = estimator.model_.moments(rows, range(self._first, last))
        return np.hstack([mean, std]) if return_std else mean

    def ends(self, estimator: Any, X: Array, level: float) -> Array:
        ends = estimator.model_.intervals(self._ordered(_with_missing(X, self.k)), level)
        return np.hstack([end[:, self._first :] for end in ends])

    @property
    def _first(self) -> int:
        """Of the columns of y."""
        return len(self.table.columns.kinds) - self.k

    def _ordered(self, rows: Any) -> Array:
        """Values of X, y, and the details of cells, of which X has its own after its values."""
        x, y = rows[:, : -self.k], rows[:, -self.k :]
        return np.hstack([x[:, : self._first], y, x[:, self._first :]])


_Joint = _Numbers | _Kinds


def with_targets(table: CodedTable, Y: Array, kind: Any, weight: Array | None = None) -> CodedTable:
    """The table with the columns of y to its right."""
    k = Y.shape[1]
    names = table.names
    of_y = ("y",) if k == 1 else tuple(f"y{j}" for j in range(k))
    while names is not None and set(of_y) & set(names):  # a feature that is called y, too
        of_y = tuple(f"{name}_" for name in of_y)
    with without(SentinelWarning):  # codes are looked for before
        own, _ = CodedTable.learned(Y, dict.fromkeys(range(k), kind), weight)
    if any(map(has_levels_alone, own.columns.kinds)):
        raise ValueError(
            f"target_kind={kind!r} is one of levels; y is predicted as a number: use "
            "PPCAClassifier for levels"
        )
    columns = tuple(
        replace(each, name=None if names is None else name)
        for each, name in zip(own.schema.columns, of_y, strict=True)
    )
    return CodedTable(
        schema=replace(table.schema, columns=(*table.schema.columns, *columns)),
        kinds=(*table.kinds, *own.kinds),
        columns=Columns((*table.columns.kinds, *own.columns.kinds)),
        sizes=table.sizes,
    )


def _present(X: ArraySource, Y: Array) -> tuple[ArraySource, Array]:
    """Rows of positive weight with an observed value, be it of X or of y."""
    kept = X.is_present() | ~np.isnan(Y).all(axis=1)
    if X.weight is not None:
        kept &= X.weight > 0
    if kept.all() or not kept.any():
        return X, Y
    return X.only(np.flatnonzero(kept)), Y[kept]


def _with_missing(X: Array, k: int) -> Array:
    """X with k missing columns to its right."""
    return np.hstack([X, np.full((len(X), k), np.nan, dtype=X.dtype)])


def _side_by_side(X: Rows, Y: Array) -> Rows:
    if isinstance(X, np.ndarray):
        return np.hstack([X, Y])
    if np.isnan(Y).any():
        return np.hstack([X.toarray(), Y])
    import scipy.sparse

    return scipy.sparse.hstack([X, scipy.sparse.csr_array(Y)], format="csr")


def _joint_names(X: ArraySource, Y: ArraySource) -> Names:
    """Of the columns of X and of y together; None where X has none."""
    if X.names is None or Y.names is None:
        return None
    targets = Y.names
    while set(targets) & set(X.names):  # a feature that is called y, too
        targets = tuple(f"{name}_" for name in targets)
    return (*X.names, *targets)


def _require_targets(Y: Array) -> None:
    observed = np.count_nonzero(~np.isnan(Y), axis=0)
    for j in np.flatnonzero(observed < 2):
        which = "y" if Y.shape[1] == 1 else f"column {int(j)} of y"
        if observed[j] == 0:
            raise ValueError(f"{which} has no value: every entry is NaN, so nothing can be learned")
        if len(Y) > 1:
            raise ValueError(
                f"{which} is known in one row only, which does not determine its variance: at "
                "least two are needed"
            )
