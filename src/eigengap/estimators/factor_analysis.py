"""Factor analysis as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import nan
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import as_fitted, keep_parameters
from eigengap.estimators.shared.linear import FitSpec, NoisyEstimator, Solved, fit_asked
from eigengap.estimators.shared.parameters import CONSTRAINTS
from eigengap.estimators.shared.partial import PartialFit
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions
from eigengap.exceptions import HeywoodWarning, UnitsWarning
from eigengap.fitting.gaussian.fit import fit_factor_analysis
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit
from eigengap.fitting.gaussian.rotation import METHODS, Method, rotate
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import Posterior
from eigengap.runtime.warnings import warn
from eigengap.selection.rank import most_factors
from eigengap.sources import Source, named_columns
from eigengap.statistics.first_look import BELOW_NOISE
from eigengap.statistics.moments import ColumnMoments


class FactorAnalysis(PartialFit, NoisyEstimator):
    """Maximum-likelihood factor analysis that accepts missing values.

    x = W z + mu + e with z ~ N(0, I) and e ~ N(0, diag(psi)): every feature has noise of its own.
    Complete data are fitted from the covariance alone (Joreskog 1967); where values are missing
    (at random) the exact observed-data likelihood is maximised by accelerated EM.

    Parameters
    ----------
    n_components : int, float in (0, 1), "auto" or None, default="auto"
        Number of factors, 0 for independent columns; the share of the variance that they must
        explain; or as many as exceed the noise level (parallel analysis, docs/rank.md), which
        None asks for too.
    tol : float, default=1e-6
        EM stops when no parameter moves by more than this (in units of its column's standard
        deviation), the log-likelihood by no more per observed value, and the gradient is as small
        (docs/numerics.md); on complete data, the largest entry of the gradient.
    noise_variance_init : array of shape (n_features,), default=None
        Kept for scikit-learn's signature; the start is spectral.
    svd_method, iterated_power
        Kept for scikit-learn's signature; no singular value decomposition is needed.
    rotation : {None, "varimax", "quartimax", "promax", "oblimin"}, default=None
        Rotation of the loadings. With `kaiser` or `scale` it is that of the standardised loadings,
        each row divided by its column's standard deviation, and does not depend on the units of
        the columns; `loadings_` are in data units all the same. With neither it is found in data
        units, as in scikit-learn, where the columns of largest variance decide; a warning names
        columns that hardly count.
    kaiser : bool, default=False
        Whether the rotation is found from standardised loadings with Kaiser's normalisation: rows
        of unit length, so that every column counts alike. `rotation="varimax"` and `"promax"` are
        then those of R's `factanal`.
    n_init : int, default=1
        Number of starts where values are missing; the best is kept. A table of up to 4000 observed
        values, which may have several maxima, gets at least 5, and up to 15 columns the other
        optima of their covariance are compared. Local maxima remain possible (docs/numerics.md):
        a larger n_init looks for better ones.
    scale : bool, default=False
        Whether columns are divided by their standard deviations. Factor analysis is covariant
        under rescaling, so this changes only the units of `noise_variance_`,
        `explained_variance_` and the tolerance, and the units in which a `rotation` is found.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The (rotated) loadings, transposed, as in scikit-learn.
    loadings_ : array of shape (n_features, n_components_)
    noise_variance_ : array of shape (n_features,)
    mean_ : array of shape (n_features,)
    factor_correlation_ : array of shape (n_components_, n_components_)
        Correlations of the factors: the identity unless the rotation is oblique.
    rotation_ : Rotation
    n_components_, n_iter_, converged_, trace_, log_likelihood_, loglike_
    degrees_of_freedom_ : float
        Given or learned; infinite under Gaussian noise.
    heywood_ : tuple of int
        Features whose noise variance lies at its floor.
    model_ : LinearGaussian
        The fitted density (rotations do not change it), in canonical form; a
        StudentLinearGaussian under Student noise, where loadings and noise are those of its scatter
        matrix.
    rank_choice_ : RankChoice
        Only if n_components is "auto" or None.
    kinds_, levels_, underlying_names_, table_
        The kind of every column, the levels of those that have some, the names of the Gaussian
        variables, and the coded table behind them; only if `columns` is not "numeric".

    Notes
    -----
    With `columns` other than "numeric" this is factor analysis of the Gaussian variables behind
    the columns, of polychoric correlations where these are ordinal. Loadings, mean and noise are
    those of these variables (`underlying_names_`), `scale` has no effect, and a `rotation` is found
    from standardised loadings. `log_likelihood_` is approximate, by expectation propagation
    (docs/columns.md).

    Examples
    --------
    >>> from eigengap import FactorAnalysis
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> X[::7, 2] = float("nan")
    >>> model = FactorAnalysis(n_components=1).fit(X)
    >>> model.transform(X).shape
    (150, 1)
    """

    _prefix = "FA"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [*CONSTRAINTS["n_components"], None],
        "noise_variance_init": ["array-like", None],
        "svd_method": [StrOptions({"randomized", "lapack"})],
        "iterated_power": [Interval(Integral, 0, None, closed="left")],
        "rotation": [StrOptions(set(METHODS)), None],
    }

    def __init__(
        self,
        n_components: int | float | str | None = "auto",
        *,
        tol: float = 1e-6,
        copy: bool = True,
        max_iter: int = 1000,
        noise_variance_init: Any = None,
        svd_method: str = "randomized",
        iterated_power: int = 3,
        rotation: Method | None = None,
        kaiser: bool = False,
        distribution: str = "gaussian",
        degrees_of_freedom: float | None = None,
        n_init: int = 1,
        scale: bool = False,
        missing_values: Any = nan,
        random_state: Any = 0,
        verbose: bool | int = False,
        checkpoint: Any = None,
        columns: Any = "numeric",
    ) -> None:
        keep_parameters(self, locals())

    def unit_of_rotation(self, source: Source) -> Array | None:
        """(d,) by which loadings are divided for their rotation; None leaves them in data units."""
        if self.rotation is not None and self.table_ is not None:
            return np.sqrt(self.model_.gaussian.variances())  # u have no units of the user's
        if self.rotation is None or not (self.scale or self.kaiser):
            return None
        return self.scale_ if self.scale else self._column_scale(source)

    def _finish(self, source: Source, fit: GaussianFit) -> None:
        super()._finish(source, fit)
        self.heywood_ = fit.at_floor
        if fit.at_floor:
            warn(self._heywood(source, fit), HeywoodWarning)
        unit = self.unit_of_rotation(source)
        self.rotation_ = rotate(self.model_.W, self.rotation, unit=unit, normalize=self.kaiser)
        if self.rotation is not None and unit is None:
            _warn_of_units(source, self.model_.gaussian)
        if not self.rotation_.converged:
            warn(f"the {self.rotation} rotation did not converge", ConvergenceWarning)

    def transform(self, X: Any, *, cell_sd: Any = None) -> Array:
        """Posterior means of the (rotated) factors: (n_samples, n_components)."""
        check_is_fitted(self, "model_")
        T = self.rotation_.T
        return self._map(X, lambda *x: self.model_.posterior_mean(*x) @ T, cell_sd)

    def inverse_transform(self, X: Any) -> Array:
        """Rows at the factor scores X: (n_samples, n_features)."""
        check_is_fitted(self, "model_")
        return self._rows_at(self._latents(X), self.rotation_.loadings)

    def posterior(self, X: Any, *, cell_sd: Any = None) -> Posterior:
        """Posterior of the (rotated) factors of every row, missing values marginalised."""
        unrotated = super().posterior(X, cell_sd=cell_sd)
        T = self.rotation_.T
        return replace(
            unrotated,
            mean=unrotated.mean @ T,
            pattern_cov=np.einsum("ij,uik,kl->ujl", T, unrotated.pattern_cov, T),
        )

    def _impute_latents(self, Z: Array) -> Array:
        """Missing factors at their mean given the others, with which they may correlate."""
        q = self.n_components_
        prior = LinearGaussian(W=self.rotation_.T.T, mu=np.zeros(q), psi=np.zeros(q))
        return prior.conditional_mean(Z)

    @property
    def loadings_(self) -> Array:
        return as_fitted(self.rotation_.loadings, self.is_float32_)

    @property
    def components_(self) -> Array:
        return self.loadings_.T

    factor_correlation_ = property(attrgetter("rotation_.phi"))

    @property
    def noise_variance_(self) -> Array:
        psi = self.model_.psi if self.scale_ is None else self.model_.psi / self.scale_**2
        return as_fitted(psi, self.is_float32_)

    loglike_ = property(lambda self: [float(value) for value in self.trace_.objective])

    def _heywood(self, source: Source, fit: GaussianFit) -> str:
        variance, names = source.reduce(ColumnMoments.of).variance, source.names
        if self.table_ is not None:
            variance = np.repeat(variance, self.table_.columns.widths)
            names = self.table_.underlying_names
        return _heywood(fit, variance, names)

    def _spec(self) -> FitSpec:
        return FitSpec(
            self._fit_model,
            tol=self.tol,
            n_init=self.n_init,
            noise="diagonal",
            robust=self.distribution == "student",
        )

    def _fit_model(self, source: Source, options: EMOptions) -> Solved:
        asked = "auto" if self.n_components is None else self.n_components
        fit = partial(fit_factor_analysis, student=self._student())
        return fit_asked(source, options, fit, asked, most=most_factors(source.n_features))


def _warn_of_units(source: Source, model: LinearGaussian) -> None:
    """Warn of columns too small to count in a rotation that is found in data units."""
    squares = np.sum(model.W**2, axis=1)  # zero where a column is constant
    small = np.flatnonzero((squares > 0.0) & (np.mean(squares) > BELOW_NOISE * model.variances()))
    if model.q > 1 and len(small):
        named = named_columns(source.names, small)
        warn(
            f"the rotation is found in data units, in which {named} hardly "
            f"count{'' if len(small) > 1 else 's'}: the columns differ too much in size. Use "
            "kaiser=True or scale=True to rotate standardised loadings",
            UnitsWarning,
        )


def _heywood(fit: GaussianFit, variance: Array, names: tuple[str, ...] | None) -> str:
    """Words for columns without noise of their own, constant ones apart."""
    constant = [j for j in fit.at_floor if not variance[j] > 0.0]
    explained = [j for j in fit.at_floor if variance[j] > 0.0]
    parts = []
    if explained:
        fewer = "Fewer factors, or leaving" if fit.model.q > 1 else "Leaving"
        named = named_columns(names, explained)
        parts.append(
            f"Heywood case: the factors explain {named} entirely, so "
            "that the noise variance there lies at its floor. "
            f"{fewer} such a column out may give a proper solution"
        )
    if constant:
        are = "is" if len(constant) == 1 else "are"
        parts.append(f"{named_columns(names, constant)} {are} constant, without noise or loadings")
    return "; ".join(parts)
