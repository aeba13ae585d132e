"""Probabilistic PCA as a scikit-learn estimator."""

from __future__ import annotations

from functools import partial
from math import nan
from numbers import Integral
from typing import Any, ClassVar

from eigengap.estimators.shared.base import NOT_NEGATIVE, keep_parameters, most_components
from eigengap.estimators.shared.density import NUMERIC_ONLY
from eigengap.estimators.shared.linear import (
    FitSpec,
    NoisyEstimator,
    Solved,
    fit_asked,
    fit_reaching,
)
from eigengap.estimators.shared.partial import PartialFit
from eigengap.estimators.shared.sklearn_compat import StrOptions
from eigengap.fitting.gaussian.fit import Solver, fit_ppca, has_closed_form
from eigengap.fitting.gaussian.pca import fit_pca
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.sources import Source


class PPCA(PartialFit, NoisyEstimator):
    """Probabilistic principal component analysis that accepts missing values.

    x = W z + mu + e with z ~ N(0, I) and e ~ N(0, sigma2 I) (Tipping and Bishop 1999). Complete
    data are fitted in closed form; where values are missing (at random) the exact observed-data
    likelihood is maximised by accelerated EM, mean included.

    Parameters
    ----------
    n_components : int, float in (0, 1) or "auto", default="auto"
        Number of components; the share of the variance that they must explain; or as many as
        exceed the noise level (parallel analysis, docs/rank.md; `rank_choice_` has the reasons).
    solver : {"auto", "closed_form", "em"}, default="auto"
        "auto" is the closed form for complete data and EM where there are missing values, a prior,
        Student noise or known noise of values.
    noise_variance : float, default=None
        sigma2 if it is known (in standardised units where scale=True); None learns it. 0 is the
        limit of ordinary PCA.
    fit_mean : bool, default=True
        False holds mu at 0. Only with columns="numeric".
    loading_precision : float, default=0.0
        Precision of a Gaussian prior on every loading. 0 is maximum likelihood.
    scale : bool, default=False
        Divide every column by its standard deviation before the fit (with Student noise or
        `cell_sd`: by its median absolute deviation times 1.4826, which outliers do not move);
        undone in every output that is in data units. `components_`, `explained_variance_` and
        `noise_variance_` are in standardised units. Off by default, as in `PCA`, of which this is
        the probabilistic form.
    tol : float, default=1e-6
        EM stops when no parameter moves by more than this (in units of its column's standard
        deviation), the log-likelihood by no more per observed value, and the gradient is as small
        (docs/numerics.md).
    n_init : int, default=1
        Number of starts; the first is spectral, the others random, the best is kept.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        Orthonormal principal axes.
    loadings_ : array of shape (n_features, n_components_)
        W, in data units.
    mean_, noise_variance_, explained_variance_, explained_variance_ratio_, singular_values_
        As in scikit-learn, but noise_variance_ is maximum likelihood: the mean of the d - q
        discarded eigenvalues at divisor n.
    n_components_, n_iter_, converged_
    degrees_of_freedom_ : float
        Given or learned; infinite under Gaussian noise.
    log_likelihood_ : float
        Of all rows together; `score` gives it per row. Where the model has no density (a noise
        variance of 0) it is the limit: -inf if a row lies off the components, else inf; `score`
        raises SingularModelError.
    trace_ : Trace
        `objective`, `change` and `seconds` of every EM step, as arrays.
    model_ : LinearGaussian
        The fitted density, in data units; a StudentLinearGaussian under Student noise, where
        loadings, noise and explained variances are those of its scatter matrix.
    spectrum_ : Spectrum
    rank_choice_ : RankChoice
        Only if n_components="auto".
    kinds_, levels_, underlying_names_, table_
        The kind of every column, the levels of those that have some, the names of the Gaussian
        variables, and the coded table behind them; only if `columns` is not "numeric".

    Notes
    -----
    PPCA has one noise variance for all columns: give columns in different units scale=True. With
    `columns` other than "numeric" it is that of the Gaussian variables behind the columns, which
    have no units, and `scale` has no effect. Loadings, axes, mean and noise are then those of
    these variables (`underlying_names_`), `log_likelihood_` is approximate, by expectation
    propagation, and `sample` and `inverse_transform` return levels and numbers as the table has
    them (docs/columns.md).

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import PPCA
    >>> X = np.array([[1, 2.1], [2, 3.9], [3, 6.2], [4, 7.8], [5, np.nan], [6, np.nan]])
    >>> model = PPCA(n_components=1, tol=1e-10).fit(X)
    >>> imputed, std = model.impute(X, return_std=True)
    >>> imputed[4:].round(2)
    array([[ 5.  ,  9.85],
           [ 6.  , 11.79]])
    >>> model.transform(X).shape
    (6, 1)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "solver": [StrOptions({"auto", "closed_form", "em"})],
        "noise_variance": [*NOT_NEGATIVE, None],
        "loading_precision": NOT_NEGATIVE,
    }

    def __init__(
        self,
        n_components: int | float | str = "auto",
        *,
        solver: Solver = "auto",
        noise_variance: float | None = None,
        fit_mean: bool = True,
        loading_precision: float = 0.0,
        distribution: str = "gaussian",
        degrees_of_freedom: float | None = None,
        scale: bool = False,
        missing_values: Any = nan,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_init: int = 1,
        random_state: Any = None,
        verbose: bool | int = False,
        checkpoint: Any = None,
        columns: Any = "numeric",
    ) -> None:
        keep_parameters(self, locals())

    def _require_for_kinds(self, cell_sd: Any) -> None:
        super()._require_for_kinds(cell_sd)
        if self.solver == "closed_form":
            raise ValueError(f'solver="closed_form" {NUMERIC_ONLY}: others are fitted by EM')

    def _spec(self) -> FitSpec:
        return FitSpec(
            self._fit_model,
            tol=self.tol,
            n_init=self.n_init,
            noise="isotropic" if self.noise_variance is None else "given",
            noise_variance=self.noise_variance,
            fit_mean=self.fit_mean,
            loading_precision=self.loading_precision,
            robust=self.distribution == "student",
        )

    def _fit_model(self, source: Source, options: EMOptions) -> Solved:
        fit = partial(
            fit_ppca,
            solver=self.solver,
            noise_variance=self.noise_variance,
            fit_mean=self.fit_mean,
            loading_precision=self.loading_precision,
            student=self._student(),
        )
        closed = has_closed_form(
            source,
            is_gaussian=self.distribution == "gaussian",
            has_prior=bool(self.loading_precision),
        )
        if self.solver == "closed_form" and not closed:
            raise ValueError(
                'solver="closed_form" needs complete data with Gaussian noise, no cell_sd and no '
                'prior on the loadings; use solver="em" or "auto"'
            )
        asked = self.n_components
        by_spectrum = closed and self.noise_variance is None
        if not by_spectrum or isinstance(asked, Integral | str):
            return fit_asked(source, options, fit, asked, fit_mean=self.fit_mean)
        # Of complete data the spectrum gives the number that explains a share, without a fit.
        share = float(asked)
        q = fit_pca(source, share, fit_mean=self.fit_mean).U.shape[1]
        return fit_reaching(
            share, q, most_components(source), partial(fit, source, options=options)
        ), None
