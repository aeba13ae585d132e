"""Bayesian PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils.validation import check_is_fitted

from eigengap.estimators._base import (
    SHARED_CONSTRAINTS,
    LinearGaussianEstimator,
    _generator,
    _log_jacobian,
    require_count,
)
from eigengap.estimators._checkpoint import CHECKPOINT_CONSTRAINTS
from eigengap.estimators._latents import decoded
from eigengap.estimators._rank import require_rank
from eigengap.estimators._sklearn_compat import Interval, StrOptions
from eigengap.exceptions import NoiseFloorWarning
from eigengap.fitting.gaussian.bayesian import BayesianFit, fit_bayesian
from eigengap.fitting.gaussian.problem import GaussianFit, Noise
from eigengap.linalg import Array
from eigengap.models.gaussian.bayesian import BayesianLinearGaussian
from eigengap.persistence.checkpoint import FileCheckpointer
from eigengap.runtime.warnings import warn
from eigengap.sources import Source
from eigengap.statistics.expected.variational import Prior
from eigengap.wording import words

_PRECISION = [Interval(Real, 0, None, closed="neither")]


class BayesianPCA(LinearGaussianEstimator):
    """Bayesian principal component analysis: learns its number of components, gaps welcome.

    PPCA with priors on its parameters, fitted by variational Bayes (Bishop 1999; with gaps, Ilin
    and Raiko 2010): w_jk ~ N(0, 1 / alpha_k), so that a component that the data do not ask for is
    switched off (automatic relevance determination) and removed. What is not known of the
    parameters is in the density, in the standard deviations of filled cells and in the draws.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        The most components to consider; "auto" is one less than rows or columns. `n_components_`
        of them are kept: at least one, also where `alpha_` says that it holds nothing.
    noise : {"isotropic", "diagonal"}, default="isotropic"
        One noise variance, as in PPCA, or one for each column, as in factor analysis.
    scale : bool, default=False
        Divide every column by its standard deviation before the fit; undone in every output that
        is in data units. `components_`, `explained_variance_`, `noise_variance_` and `alpha_` are
        in standardised units.
    loading_shape, loading_rate : float, default=1e-3
        Of the Gamma prior of every alpha_k. Of the mean of the columns' variances as unit (of each
        column's own, where noise="diagonal").
    noise_shape, noise_rate : float, default=1e-6
        Of the Gamma prior of the noise precision, in the same units.
    mean_precision : float, default=1e-6
        Of the Gaussian prior of mu about the column means, in the same units.
    missing_values : float or list of float, default=nan
        Values that mark an unseen cell, besides NaN.
    tol : float, default=1e-3
        The fit stops when no parameter moves by more than this (in units of its column's standard
        deviation) and the bound by no more per seen cell. The posterior of a loading is seldom
        narrower than that.
    max_iter : int, default=1000
        Most rounds of updates.
    random_state : int, RandomState or None, default=None
        Not used by the fit, which starts from the spectrum of the table.
    verbose : bool or int, default=False
        Whether to show progress.
    checkpoint : str, path-like or Checkpoint, default=None
        File to which an iterative fit writes now and then what it has done, and from which a later
        call goes on if this one was interrupted; removed when the fit has converged
        (docs/checkpoints.md).

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
        The predictive density in data units: loadings and mean are posterior means, and what is
        not known of them is part of its noise.
    components_ : array of shape (n_components_, n_features)
        Orthonormal principal axes.
    loadings_ : array of shape (n_features, n_components_)
        E[W], in data units.
    noise_variance_ : float, or array of shape (n_features,) for noise="diagonal"
        Expected noise variance, what is not known of the loadings left out.
    mean_, explained_variance_, explained_variance_ratio_, singular_values_
        As in `PPCA`, at posterior means.
    log_likelihood_ : float
        Of all rows together under `model_`; `score` gives it per row.
    trace_ : Trace
        `objective` (the bound), `change` and `seconds` of every round, as arrays.
    n_iter_, converged_, spectrum_

    Notes
    -----
    The bound never falls, also where a component is removed: that happens only if it is no lower
    without it. Densities and intervals: see `eigengap.models.gaussian.bayesian` for what is exact
    in them.

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
        **SHARED_CONSTRAINTS,
        **CHECKPOINT_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "noise": [StrOptions({"isotropic", "diagonal"})],
        "loading_shape": _PRECISION,
        "loading_rate": _PRECISION,
        "noise_shape": _PRECISION,
        "noise_rate": _PRECISION,
        "mean_precision": _PRECISION,
        "tol": [Interval(Real, 0, None, closed="left")],
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
    ) -> None:
        self.n_components = n_components
        self.noise = noise
        self.scale = scale
        self.loading_shape = loading_shape
        self.loading_rate = loading_rate
        self.noise_shape = noise_shape
        self.noise_rate = noise_rate
        self.mean_precision = mean_precision
        self.missing_values = missing_values
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint

    def transform(self, X: Any) -> Array:
        """Posterior means E[z | x] of the latent variables: (n_samples, n_components_).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap; a row without any seen cell is at 0, the prior mean.
        """
        check_is_fitted(self, "model_")
        return self._map(X, self.model_.posterior_mean)

    def inverse_transform(self, X: Any) -> Array:
        """Rows E[W] z + E[mu] at the latent coordinates X: (n_samples, n_features)."""
        check_is_fitted(self, "model_")
        Z = self._latents(X)
        return decoded(Z, lambda Z: Z @ self.model_.W.T + self.model_.mu)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw new rows, each with parameters of its own from their posterior.

        `bayesian_.draw` gives a whole model drawn from the posterior instead.
        """
        check_is_fitted(self, "model_")
        require_count("n_samples", n_samples, "rows")
        return self.bayesian_.sample(n_samples, _generator(random_state))

    @property
    def predictive_(self) -> BayesianLinearGaussian:  # type: ignore[override]
        """What `impute` and `sample_imputations` ask for standard deviations and draws."""
        return self.bayesian_

    @property
    def alpha_(self) -> Array:
        return self.bayesian_.relevance.mean()

    @property
    def noise_variance_(self) -> Any:
        psi = self.bayesian_.noise_variance()
        psi = psi if self.scale_ is None else psi / self.scale_**2
        return float(psi[0]) if self.noise == "isotropic" else psi

    def _noise_kind(self) -> Noise:
        return self.noise

    @property
    def _shares_noise(self) -> bool:
        return self.noise == "isotropic"

    def _fit_model(
        self, source: Source, checkpointer: FileCheckpointer | None = None
    ) -> GaussianFit:
        most = None
        if not isinstance(self.n_components, str):
            require_rank(self.n_components, source)
            most = int(self.n_components)
        prior = Prior(
            loading_shape=self.loading_shape,
            loading_rate=self.loading_rate,
            noise_shape=self.noise_shape,
            noise_rate=self.noise_rate,
            mean_precision=self.mean_precision,
        )
        return self._run(
            lambda how: fit_bayesian(source, most, noise=self.noise, prior=prior, options=how),
            self._options(self.tol, checkpointer=checkpointer),
        )

    def _keep(self, fit: GaussianFit, unit: Array | None) -> None:
        assert isinstance(fit, BayesianFit)
        super()._keep(replace(fit, at_floor=()), unit)
        self.bayesian_ = fit.bayesian if unit is None else fit.bayesian.rescaled(unit)
        self.elbo_ = fit.elbo - _log_jacobian(fit, unit)
        if fit.at_floor and self.noise == "isotropic" and fit.spectrum.total > 0.0:
            warn(
                "the noise variance fell to its floor: the data have no noise, or columns differ "
                f"too much in size ({words().parameter('scale', True)} helps)",
                NoiseFloorWarning,
            )
