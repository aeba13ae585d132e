"""Noise beyond one Gaussian for all rows, as PPCA and FactorAnalysis offer it."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators._base import LinearGaussianEstimator
from eigengap.estimators._sklearn_compat import Interval, StrOptions, _fit_context
from eigengap.exceptions import HeavyTailsWarning
from eigengap.fitting.gaussian.noise import MultivariateT
from eigengap.fitting.gaussian.robust_scale import typical_columns
from eigengap.linalg import Array
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.persistence.checkpoint import FileCheckpointer
from eigengap.runtime.warnings import warn
from eigengap.sources import Source, column
from eigengap.statistics.expected.student import least_degrees
from eigengap.statistics.moments import ColumnMoments

NO_VARIANCE = 2.0  # degrees of freedom up to which a t density has none
SAMPLED = 1000  # rows that skewness is judged by
FEWEST = 10  # observed values in them of a column that is judged
# Of the distance between the 10 % and the 90 % quantile, by how much more of it lies above the
# median than below: 0 for symmetric columns, 0.5 for lognormal ones whose logarithm has a standard
# deviation of 0.85.
SKEWED = 0.5
MOST_NAMED = 5  # columns in one warning

NOISE_CONSTRAINTS: dict[str, list[Any]] = {
    "noise": [StrOptions({"gaussian", "student"})],
    "degrees_of_freedom": [Interval(Real, 0, None, closed="neither"), None],
}


class NoisyEstimator(LinearGaussianEstimator):
    """Base class of what takes `noise`, `degrees_of_freedom` and `cell_sd`."""

    noise: str
    degrees_of_freedom: float | None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, cell_sd: Any = None) -> Self:
        """Fit the model to the seen cells of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, sparse matrix, pandas, polars or pyarrow, a Dask array or frame, or
            the path of a file (`eigengap.open_source`); NaN marks a gap.
        y : ignored
        sample_weight : array of shape (n_samples,), default=None
            Frequency of each row: an integer weight equals repeating the row.
        cell_sd : table of X's shape, default=None
            Known standard deviation s_ij of each cell; 0 or NaN where nothing is known. The noise
            variance of a cell is then psi_j + s_ij^2, the model's own being what is left.

        Returns
        -------
        self
        """
        self._fit(X, sample_weight, cell_sd)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, cell_sd: Any = None
    ) -> Any:
        """`fit` and then `transform`, with the same cell_sd."""
        return self.fit(X, y, sample_weight, cell_sd=cell_sd).transform(X, cell_sd=cell_sd)

    def transform(self, X: Any, *, cell_sd: Any = None) -> Array:
        raise NotImplementedError

    def _fit_source(self, X: Any, source: Source, checkpointer: FileCheckpointer | None) -> None:
        super()._fit_source(X, source, checkpointer)
        if self.noise == "student" and self.degrees_of_freedom is None:
            warn_of_tails(source, self.degrees_of_freedom_, self.n_components_)

    def row_weights(self, X: Any) -> Array:
        """How much each row counts: (n_samples,).

        (nu + p) / (nu + delta) for a row of p seen cells at the squared distance delta: about 1
        for ordinary rows, near 0 for outliers; exactly 1 under Gaussian noise.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.
        """
        check_is_fitted(self, "model_")
        model = self.model_
        if isinstance(model, StudentLinearGaussian):
            return self._map(X, model.row_weights)
        return self._map(X, lambda x: np.ones(len(x)))

    @property
    def degrees_of_freedom_(self) -> float:
        return self.model_.nu if isinstance(self.model_, StudentLinearGaussian) else inf

    def _student(self) -> MultivariateT | None:
        if self.noise == "gaussian" and self.degrees_of_freedom is not None:
            raise ValueError(
                f"degrees_of_freedom={self.degrees_of_freedom} is of Student rows; set "
                'noise="student", or leave it at None'
            )
        return MultivariateT(self.degrees_of_freedom) if self.noise == "student" else None

    def _column_sizes(self, source: Source) -> Array:
        sizes = super()._column_sizes(source)
        if self.noise == "gaussian" and not source.has_cell_sd:
            return sizes
        _, variance = typical_columns(source, source.reduce(ColumnMoments.of))
        return np.where(variance > 0, np.sqrt(variance), sizes)


def warn_of_tails(source: Source, nu: float, q: int) -> None:
    """Warn of degrees of freedom without a variance, and name columns whose logarithm may help."""
    if nu > NO_VARIANCE:
        return
    least = least_degrees(source.observed().sum_w, source.n_features, q)
    at_least = nu <= least * (1.0 + 1e-6)
    skewed = _skewed_columns(source)
    named = ", ".join(column(source.names, j) for j in skewed[:MOST_NAMED])
    more = f" and {len(skewed) - MOST_NAMED} more" if len(skewed) > MOST_NAMED else ""
    ways = f"take the logarithm of the skewed columns {named}{more}, or " if skewed else ""
    ways += "set degrees_of_freedom to 4 or more"
    warn(
        f"the rows have such heavy tails, {nu:.2g} degrees of freedom"
        f"{' (the fewest that are tried)' if at_least else ''}, that the density has no variance: "
        "standard deviations of imputed values are huge for outliers, and infinite for rows with "
        f"few observed values. {ways[0].upper()}{ways[1:]}",
        HeavyTailsWarning,
    )


def _skewed_columns(source: Source) -> list[int]:
    """Columns of positive values, most of whose range lies above the median."""
    rows = source.sample(min(SAMPLED, source.observed().rows), np.random.default_rng(0))
    skewed = []
    for j, values in enumerate(rows.T):
        values = values[~np.isnan(values)]
        if len(values) < FEWEST or np.min(values) <= 0.0:
            continue
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
        if low + high - 2.0 * middle > SKEWED * (high - low):
            skewed.append(j)
    return skewed
