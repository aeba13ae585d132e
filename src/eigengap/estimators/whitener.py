"""Centring, normalising and whitening as a scikit-learn estimator."""

from __future__ import annotations

from math import nan
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import (
    as_fitted,
    keep_features,
    keep_parameters,
    progress_of,
    require_rank,
    source_of_new,
)
from eigengap.estimators.shared.density import warn_of_unlinked
from eigengap.estimators.shared.sklearn_compat import (
    Interval,
    StrOptions,
    _check_feature_names_in,
    _fit_context,
)
from eigengap.estimators.shared.transformer import COMPONENTS, Transformer, as_latents, decoded
from eigengap.exceptions import RankDeficientWarning
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.fitting.gaussian.whitening import (
    BY_COLUMN,
    METHODS,
    ROTATED,
    TRUNCATED,
    Whitening,
    column_units,
    describe_dependent,
    fit_columns,
    fit_whitening,
)
from eigengap.linalg import Array
from eigengap.runtime.memory import require_memory
from eigengap.runtime.warnings import warn
from eigengap.selection.rank import automatic_rank
from eigengap.sources import Block, Rescaled, Source, as_source, warn_of_codes
from eigengap.statistics.first_look import look_first
from eigengap.wording import words


class Whitener(Transformer):
    """Centre, normalise or whiten a table; accepts missing values.

    Whitened columns have variance 1 and no correlation in the training data, with divisor
    n_samples - ddof. The family is that of Kessy, Lewin and Strimmer (2018).

    Parameters
    ----------
    n_components : int, float in (0, 1), "auto" or None, default=None
        Axes to keep, for "pca" and "zca" and their "-cor"; the share of the variance that they must
        hold; as many as exceed the noise level (docs/rank.md). None keeps every direction that
        varies. "zca" gives all columns back, whitened within the span of the axes.
    method : str, default="pca"
        - "pca": principal components divided by their standard deviations; equals
          `PCA(whiten=True)`.
        - "zca": the whitened columns nearest to the centred ones (Mahalanobis whitening).
        - "cholesky": the first column normalised, each next one without what the columns before it
          explain, normalised; depends on their order.
        - "pca-cor", "zca-cor": the same of normalised columns; they do not depend on units.
        - "normalise": mean 0 and variance 1, column by column.
        - "centre": mean 0.
    ddof : int, default=1
        Variances are at divisor n_samples - ddof (of the weights' sum): 1 as in PCA, 0 for maximum
        likelihood and as in scikit-learn's StandardScaler.
    rank_tol : float or "auto", default="auto"
        Directions whose standard deviation is at or below rank_tol times the largest do not count
        as variation. "auto" is what rounding can explain: of the solution, and of the cells as they
        are stored (float32 cells, or far from zero, hold less).
    tol, max_iter
        Of the EM fit with missing values.

    Attributes
    ----------
    whitening_ : array of shape (n_outputs, n_features)
        A in z = A (x - mean_).
    coloring_ : array of shape (n_features, n_outputs)
        B in x = mean_ + B z: `inverse_transform`.
    mean_ : array of shape (n_features,)
    scale_ : array of shape (n_features,)
        What columns are divided by first; ones for "centre", "pca" and "zca".
    explained_variance_ : array
        Variance along each whitened axis before it was whitened, in units of `scale_`; of each
        column for "normalise" and "centre".
    n_components_ : int
        Whitened axes.
    rank_ : int
        Directions in which the training data vary (at most n_components where it is a number).
    n_iter_, converged_

    Notes
    -----
    Missing values. "normalise" and "centre" take the observed values of each column, and NaN stays
    NaN. The others find mean and covariance of maximum likelihood given the observed values (EM for
    a Gaussian without structure, up to 200 columns; "pca" with a number of components: PPCA of that
    rank, of any width), and `transform` gives A (E[x | observed values] - mean), the expected
    whitened row: it varies less than a complete row would.

    Rank. Where the rows vary in fewer directions than there are columns, a warning gives the rank
    and only those directions are whitened ("pca" gives fewer columns, "zca" columns of covariance
    U U'); "cholesky" and a larger n_components are an error. Rounding errors are never amplified.

    A sparse table is accepted; what comes out is dense, because centring makes its zeros nonzero.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import Whitener
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2)) @ [[2.0, 1.0], [0.0, 1.0]] + 5.0
    >>> Z = Whitener(method="zca").fit_transform(X)
    >>> np.cov(Z, rowvar=False).round(8) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": COMPONENTS,
        "method": [StrOptions(set(METHODS))],
        "ddof": [Interval(Integral, 0, None, closed="left")],
        "rank_tol": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    result_: Whitening

    def __init__(
        self,
        n_components: Any = None,
        *,
        method: Any = "pca",
        ddof: int = 1,
        rank_tol: float | str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        missing_values: Any = nan,
        verbose: bool | int = False,
    ) -> None:
        keep_parameters(self, locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find mean, variances and the whitening map of the observed values of X."""
        if self.n_components is not None and self.method not in TRUNCATED:
            raise ValueError(
                f'n_components={self.n_components!r} has no meaning for method="{self.method}", '
                "which keeps every column; leave it None, or use "
                f"{' or '.join(TRUNCATED)}"
            )
        everything = as_source(X, sample_weight=sample_weight, missing_values=self.missing_values)
        source = look_first(everything, scatter=True)
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        sum_w = source.observed().sum_w
        if sum_w <= self.ddof:
            raise ValueError(
                f"the rows count {sum_w:g} in all (sample_weight is a frequency), which leaves "
                f"nothing to divide by at ddof={self.ddof}; scale the weights to sum to the number "
                "of rows, or use ddof=0"
            )
        result = self._fitted(source)
        keep_features(self, X, source)  # only now: a fit may fail
        self.result_ = result
        self._warn(source)
        return self

    def _fitted(self, source: Source) -> Whitening:
        if self.method in BY_COLUMN:
            return fit_columns(source, self.method, self.ddof)
        q = self.n_components
        self._forget("rank_choice_")
        if q == "auto":
            self.rank_choice_ = automatic_rank(source)
            q = self.rank_choice_.n_components
        elif isinstance(q, Integral):
            require_rank(q := int(q), source)
        unit = column_units(source, self.method)
        with progress_of(self) as watch:
            return fit_whitening(
                source if unit is None else Rescaled(source, unit),
                self.method,
                q,
                unit=unit,
                stored=source.dtype,
                ddof=self.ddof,
                rank_tol=None if self.rank_tol == "auto" else float(self.rank_tol),
                options=EMOptions(tol=self.tol, max_iter=self.max_iter, watch=watch),
            )

    def _warn(self, source: Source) -> None:
        fit = self.result_
        if self.method not in BY_COLUMN:
            warn_of_unlinked(source)
        if not fit.full_rank and self.method != "centre":
            which = describe_dependent(fit.dependent, source.names, source.observed().rows)
            done = "only those directions are whitened"
            done += ", one column for each" if self.method in ROTATED else ""
            if self.method == "normalise":
                done = "columns that do not vary are centred only"
            sure = "" if fit.converged else ", as far as incomplete rows show (nearly collinear)"
            warn(
                f"the {source.n_features} columns of X have rank {fit.rank}{which}{sure}: {done}",
                RankDeficientWarning,
            )
        elif not fit.converged:
            stuck = fit.n_iter < self.max_iter
            warn(
                f"{type(self).__name__} did not converge in {fit.n_iter} steps"
                + (
                    ": columns are so nearly collinear that the likelihood of the observed values "
                    "cannot be computed well enough to rise further. Leave one of such columns "
                    "out, or use n_components"
                    if stuck
                    else f"; {words().more_steps(self.max_iter)}. Nearly collinear columns slow "
                    "it down: n_components helps"
                ),
                ConvergenceWarning,
            )

    def transform(self, X: Any) -> Array:
        """Whitened rows, their expected value where some are missing: (n_samples, n_outputs)."""
        check_is_fitted(self, "result_")
        source = source_of_new(self, X, missing_values=self.missing_values)
        if source.is_sparse and source.n_rows is not None:
            needed = 8.0 * source.n_rows * self._n_outputs
            require_memory(needed, "the whitened table, which is dense", "fewer rows")
        return as_fitted(source.map(self._whitened), source.dtype == np.float32)

    def _whitened(self, block: Block) -> Array:
        values, fit = block.values, self.result_
        has_missing = isinstance(values, np.ndarray) and bool(np.isnan(values).any())
        if has_missing and fit.model is not None:
            values = fit.model.conditional_mean(values)
        return fit.map.forward(values)

    def inverse_transform(self, X: Any) -> Array:
        """Rows whose whitened form is X: (n_samples, n_features).

        Exact where every direction was whitened; else the nearest row in the span of those that
        were. A NaN counts as 0, the expected value of a whitened coordinate; of "normalise" and
        "centre" it stays NaN.
        """
        check_is_fitted(self, "result_")
        Z = as_latents(X, self._n_outputs, "whitened columns")
        if self.result_.model is not None:
            Z = np.where(np.isnan(Z), Z.dtype.type(0.0), Z)
        return decoded(Z, self.result_.map.backward)

    @property
    def _n_outputs(self) -> int:
        return self.n_components_ if self.method in ROTATED else int(self.n_features_in_)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Those of the columns; whitener0, whitener1, ... for "pca" and "pca-cor"."""
        if self.method in ROTATED:
            return super().get_feature_names_out(input_features)
        check_is_fitted(self, "result_")
        return _check_feature_names_in(self, input_features)

    @property
    def component_names_(self) -> list[str]:
        """The names of the columns; PC1, PC2, ... for "pca" and "pca-cor"."""
        if self.method in ROTATED:
            return super().component_names_
        return [str(name) for name in self.get_feature_names_out()]

    # Fitted attributes ---------------------------------------------------------------------

    whitening_ = property(attrgetter("result_.map.A"))
    coloring_ = property(attrgetter("result_.map.B"))
    mean_ = property(attrgetter("result_.map.mean"))
    scale_ = property(attrgetter("result_.unit"))
    explained_variance_ = property(attrgetter("result_.variance"))

    rank_ = property(attrgetter("result_.rank"))
    converged_ = property(attrgetter("result_.converged"))
    n_iter_ = property(lambda self: max(self.result_.n_iter, 1))
    n_components_ = property(lambda self: len(self.result_.variance))
