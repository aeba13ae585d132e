"""Bayesian PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import fields
from math import nan
from numbers import Real
from typing import Any, ClassVar

from eigengap.estimators.shared.base import AT_LEAST_ONE, keep_parameters, require_rank
from eigengap.estimators.shared.linear import (
    FitSpec,
    LinearGaussianEstimator,
    Solved,
    SolvedColumns,
    log_jacobian,
    require_width,
)
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions
from eigengap.fitting.columns.bayesian import fit_bayesian_columns
from eigengap.fitting.gaussian.bayesian import BayesianFit, fit_bayesian
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit, Noise
from eigengap.linalg import Array
from eigengap.models.gaussian.bayesian import BayesianLinearGaussian
from eigengap.persistence.checkpoint import FileCheckpointer
from eigengap.selection.coded_table import CodedTable
from eigengap.sources import Source
from eigengap.statistics.expected.variational import Prior

PRIOR = [f.name for f in fields(Prior) if f.name != "free"]  # parameters of the same names


class BayesianPCA(LinearGaussianEstimator):
    """Bayesian principal component analysis: it learns its number of components.

    PPCA with priors on its parameters, fitted by variational Bayes (Bishop 1999; with missing
    values, Ilin and Raiko 2010): w_jk ~ N(0, 1 / alpha_k), so that a component that the data do not
    ask for is switched off (automatic relevance determination) and removed. The uncertainty of the
    parameters is part of the density, of the standard deviations of imputed values and of the
    draws.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        The most components to consider; "auto" is one less than rows or columns. `n_components_`
        of them are kept: at least one, also where `alpha_` shows that it is empty.
    noise : {"isotropic", "diagonal"}, default="isotropic"
        One noise variance, as in PPCA, or one for each column, as in factor analysis.
    scale : bool, default=False
        Divide every column by its standard deviation before the fit; undone in every output that
        is in data units. `components_`, `explained_variance_`, `noise_variance_` and `alpha_` are
        in standardised units. Off by default, as in `PPCA`.
    loading_shape, loading_rate : float, default=1e-3
        Of the Gamma prior of every alpha_k. Of the mean of the columns' variances as unit (of each
        column's own, where noise="diagonal").
    noise_shape, noise_rate : float, default=1e-6
        Of the Gamma prior of the noise precision, in the same units.
    mean_precision : float, default=1e-6
        Of the Gaussian prior of mu about the column means, in the same units.
    tol : float, default=1e-3
        The fit stops when no parameter moves by more than this (in units of its column's standard
        deviation) and the ELBO by no more per observed value. The posterior of a loading is seldom
        narrower than that.
    random_state : int, RandomState or None, default=None
        Not used by the fit, which starts from the spectrum of the table.

    Attributes
    ----------
    n_components_ : int
        Components that were kept.
    alpha_ : array of shape (n_components_,)
        Expected precision of each component's loadings: d / alpha_ is about their sum of squares.
    elbo_ : float
        Evidence lower bound, ln p(X) or less: compares models of the same table.
    bayesian_ : BayesianLinearGaussian
        The posterior of loadings, mean, noise and alpha, in data units.
    model_ : LinearGaussian
        The predictive density in data units: loadings and mean are posterior means, and their
        uncertainty is part of its noise.
    components_ : array of shape (n_components_, n_features)
        Orthonormal principal axes.
    loadings_ : array of shape (n_features, n_components_)
        E[W], in data units.
    noise_variance_ : float, or array of shape (n_features,) for noise="diagonal"
        Expected noise variance, without the uncertainty of the loadings.
    mean_, explained_variance_, explained_variance_ratio_, singular_values_
        As in `PPCA`, at posterior means.
    log_likelihood_ : float
        Of all rows together under `model_`; `score` gives it per row.
    trace_ : Trace
        `objective` (the ELBO), `change` and `seconds` of every round, as arrays.
    n_iter_, converged_, spectrum_
    kinds_, levels_, underlying_names_, table_
        The kind of every column, the levels of those that have some, the names of the Gaussian
        variables, and the coded table behind them; only if `columns` is not "numeric".

    Notes
    -----
    The ELBO never falls, also where a component is removed: that happens only if it is no lower
    without it. Densities and intervals: see `eigengap.models.gaussian.bayesian` for what is exact
    in them.

    With `columns` other than "numeric" this is Bayesian PCA of the Gaussian variables behind the
    columns: loadings, axes, mean, noise and `bayesian_` are those of these variables
    (`underlying_names_`), and `scale` has no effect. The ELBO is approximate, by expectation
    propagation, and may fall; the fit has converged where its gradient is small (docs/columns.md).

    Examples
    --------
    Three directions of standard deviation 1 among ten of 0.5 (Bishop 1999):

    >>> import numpy as np
    >>> from eigengap.estimators.bayesian_pca import BayesianPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 10)) * np.where(np.arange(10) < 3, 1.0, 0.5)
    >>> X[rng.random(X.shape) < 0.1] = np.nan
    >>> model = BayesianPCA().fit(X)
    >>> model.n_components_
    3
    >>> round(model.noise_variance_, 2)
    0.25
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [*AT_LEAST_ONE, StrOptions({"auto"})],
        **{name: [Interval(Real, 0, None, closed="neither")] for name in PRIOR},
    }

    bayesian_: BayesianLinearGaussian
    elbo_: float

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        noise: Noise = "isotropic",
        scale: bool = False,
        loading_shape: float = 1e-3,
        loading_rate: float = 1e-3,
        noise_shape: float = 1e-6,
        noise_rate: float = 1e-6,
        mean_precision: float = 1e-6,
        missing_values: Any = nan,
        tol: float = 1e-3,
        max_iter: int = 1000,
        random_state: Any = None,
        verbose: bool | int = False,
        checkpoint: Any = None,
        columns: Any = "numeric",
    ) -> None:
        keep_parameters(self, locals())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw new rows, each with parameters of its own from their posterior.

        `bayesian_.draw` gives a whole model drawn from the posterior instead.
        """
        return super().sample(n_samples, random_state)

    @property
    def _drawn_from(self) -> Any:
        return self.bayesian_ if self.table_ is None else self.model_

    @property
    def predictive_(self) -> Any:
        """The posterior, which `impute` and `sample_imputations` use.

        Of columns of several kinds it is part of `model_`.
        """
        return self.bayesian_ if self.table_ is None else self.model_

    @property
    def alpha_(self) -> Array:
        return self.bayesian_.relevance.mean()

    @property
    def noise_variance_(self) -> Any:
        psi = self.bayesian_.noise_variance()
        psi = psi if self.scale_ is None else psi / self.scale_**2
        return float(psi[0]) if self.noise == "isotropic" else psi

    def _spec(self) -> FitSpec:
        return FitSpec(self._fit_model, tol=self.tol, noise=self.noise, prunes=True)

    def _fit_model(self, source: Source, options: EMOptions) -> Solved:
        most = None
        if not isinstance(self.n_components, str):
            require_rank(self.n_components, source)
            most = int(self.n_components)
        fit = fit_bayesian(source, most, noise=self.noise, prior=self._prior(), options=options)
        return fit, None

    def _fit_coded(
        self, source: Source, table: CodedTable, checkpointer: FileCheckpointer | None
    ) -> SolvedColumns:
        most = None
        if not isinstance(self.n_components, str):
            most = int(self.n_components)
            require_width(most, table.columns)
        with self._options(checkpointer) as options:
            model, fit = fit_bayesian_columns(
                source,
                table.columns,
                most,
                noise=self.noise,
                prior=self._prior(),
                options=options,
            )
        return model, fit, None

    def _prior(self) -> Prior:
        return Prior(**{name: getattr(self, name) for name in PRIOR})

    def _finish(self, source: Source, fit: GaussianFit) -> None:
        assert isinstance(fit, BayesianFit)
        unit = self.scale_
        self.bayesian_ = fit.bayesian if unit is None else fit.bayesian.rescaled(unit)
        self.elbo_ = fit.elbo - log_jacobian(fit, unit)
