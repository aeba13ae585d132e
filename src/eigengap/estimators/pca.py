"""Principal component analysis as a scikit-learn estimator."""

from __future__ import annotations

from math import nan
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import (
    AT_LEAST_ONE,
    keep_parameters,
    most_components,
    require_components,
)
from eigengap.estimators.shared.linear import FitSpec, Solved, fit_asked
from eigengap.estimators.shared.parameters import CONSTRAINTS
from eigengap.estimators.shared.partial import PartialFit
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions
from eigengap.estimators.shared.transformer import decoded
from eigengap.fitting.eigen.krylov import ANGLE_TOLERANCE
from eigengap.fitting.gaussian.fit import closed_form, fit_exact_spectrum, fit_ppca
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.selection.rank import RankChoice, automatic_rank, minka_rank
from eigengap.sources import Source

DEFAULT_TOL = 1e-6  # of the EM fit with missing values, where tol=0.0 asks for the default
TRUNCATED = ("arpack", "randomized")  # solvers of a number of components known beforehand
ALL_BY_EM = 50  # most components that n_components=None asks for where values are missing


class PCA(PartialFit):
    """Principal component analysis that accepts missing values.

    Complete data are solved exactly by the cheapest route for their shape. Where values are missing
    (at random) the axes are those of the maximum-likelihood PPCA density, of which ordinary PCA is
    the case of complete data. Takes scikit-learn's parameters under their names.

    Parameters
    ----------
    n_components : int, float in (0, 1), "auto", "mle" or None, default=None
        Number of components, 0 for the mean and the noise alone; the share of the variance that
        they must exceed; the number of components that exceed the noise level (parallel analysis,
        docs/rank.md); the number of largest evidence (Minka 2000); None keeps every direction that
        has variance (with missing values min(n_samples, n_features) - 1, and "auto" with a warning
        where that is more than 50).
    whiten : bool, default=False
        Divide the scores by their standard deviation. An output option: the density stays.
    svd_solver : {"auto", "full", "covariance_eigh", "arpack", "randomized"}, default="auto"
        A route by scikit-learn's name. All are accurate: eigenvalues to 1e-10 of the largest, axes
        to rounding or, by iteration, to `tol`, with a certificate. As there, "arpack" finds fewer
        components than min(n_samples, n_features), and it and "randomized" want a number of them
        (or "auto").
    tol : float, default=0.0
        Sine of the largest angle between an axis that is found by iteration (both sides of the
        table large, few components) and the exact one. 0.0 stands for 1e-7, with
        svd_solver="arpack" for rounding; larger values than 1e-7 change nothing there. With missing
        values the tolerance of the EM fit, where 0.0 stands for 1e-6.
    iterated_power, power_iteration_normalizer
        Kept for scikit-learn's signature; iterative routes stop by a residual certificate.
    n_oversamples : int, default=10
        "randomized" is exact where this and n_components reach min(n_samples, n_features).
    scale : bool, default=False
        Divide every column by its standard deviation first (PCA of the correlations); undone in
        every output that is in data units. Off by default, as in scikit-learn: columns in one unit
        (spectra, images, genes) keep their relative variance.
    max_iter : int, default=1000
        Most EM steps where values are missing.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        Orthonormal axes; the entry of largest modulus in each is positive.
    explained_variance_, explained_variance_ratio_, singular_values_, mean_, n_components_,
    n_samples_, n_features_in_
        As in scikit-learn.
    noise_variance_ : float
        Mean of the d - q discarded eigenvalues at divisor n (maximum likelihood).
    model_ : LinearGaussian
        The PPCA density of these axes, in data units.
    spectrum_ : Spectrum
    n_iter_, converged_, trace_, log_likelihood_

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import PCA
    >>> X = np.array([[-1, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]])
    >>> pca = PCA(n_components=2).fit(X)
    >>> pca.explained_variance_ratio_.round(4)
    array([0.9924, 0.0076])
    >>> X = X.astype(float)
    >>> X[0, 1] = np.nan
    >>> PCA(n_components=1).fit_transform(X).shape
    (6, 1)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [*CONSTRAINTS["n_components"], StrOptions({"mle"}), None],
        "svd_solver": [StrOptions({"auto", "full", "covariance_eigh", "arpack", "randomized"})],
        "iterated_power": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "n_oversamples": AT_LEAST_ONE,
        "power_iteration_normalizer": [StrOptions({"auto", "QR", "LU", "none"})],
    }

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        copy: bool = True,
        whiten: bool = False,
        svd_solver: str = "auto",
        tol: float = 0.0,
        iterated_power: int | str = "auto",
        n_oversamples: int = 10,
        power_iteration_normalizer: str = "auto",
        random_state: Any = None,
        scale: bool = False,
        missing_values: Any = nan,
        max_iter: int = 1000,
        verbose: bool | int = False,
        checkpoint: Any = None,
    ) -> None:
        keep_parameters(self, locals())

    def transform(self, X: Any) -> Array:  # type: ignore[override]
        """Orthogonal scores U^T (x - mu), missing values imputed: (n_samples, n_components_)."""
        source = self._source(X)
        scores = source.map(lambda block: self._scores(block.values))
        if self.whiten:
            scores = scores / self._whitening()
        return scores.astype(np.float32) if source.dtype == np.float32 else scores

    def inverse_transform(self, X: Any) -> Array:
        """Rows at the scores X: (n_samples, n_features)."""
        check_is_fitted(self, "model_")
        q = self.n_components_
        sd = np.sqrt(self.spectrum_.explained_variance(q)) if self.whiten else 1.0
        return decoded(self._latents(X), lambda Z: self._at(Z * sd))

    def _scores(self, values: Any) -> Array:
        """Of rows, dense or sparse, before they are whitened."""
        dense = isinstance(values, np.ndarray)
        if dense and np.isnan(values).any():
            values = self.model_.conditional_mean(values)
        if self.scale_ is not None:
            values = values / self.scale_ if dense else (values * (1.0 / self.scale_)).tocsr()
        return self.projection_.forward(values)

    def _at(self, scores: Array) -> Array:
        """Rows at scores that are not whitened."""
        rows = self.projection_.backward(scores)
        return rows if self.scale_ is None else rows * self.scale_

    def _whitening(self) -> Array:
        """Standard deviation of each score; infinite where there is none, for a score of 0."""
        q = self.n_components_
        varies = self.spectrum_.lam[:q] > self.spectrum_.rounding
        return np.where(varies, np.sqrt(self.spectrum_.explained_variance(q)), np.inf)

    def reconstruct(self, X: Any, kind: str = "optimal", *, cell_sd: Any = None) -> Any:
        """Rows projected onto the components.

        Parameters
        ----------
        kind : {"optimal", "posterior"}, default="optimal"
            "optimal" is the orthogonal projection of ordinary PCA, of least squared error: missing
            values are imputed first, and scores go through `inverse_transform`. "posterior" is
            W E[z | x] + mu of the PPCA density `model_`, shrunk towards the mean as its noise
            demands.
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value, as in `posterior`; with kind="posterior" only.

        Returns
        -------
        table of X's type, of shape (n_samples, n_features)

        Examples
        --------
        >>> import numpy as np
        >>> from eigengap import PCA
        >>> X = np.array([[-1.0, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]])
        >>> pca = PCA(n_components=1).fit(X)
        >>> errors = np.sum((X - pca.reconstruct(X)) ** 2, axis=1)
        >>> bool(np.isclose(errors.mean(), pca.reconstruction_error()))
        True
        """
        return super().reconstruct(X, kind, cell_sd=cell_sd)

    def _project(self, X: Array) -> Array:
        """Along the axes themselves: a direction of no more than the noise is none of `model_`."""
        return self._at(self._scores(X))

    def reconstruction_error(self) -> float:
        """Mean squared distance of a training row to its reconstruction.

        The sum of the discarded eigenvalues, in standardised units where scale=True; what
        `reconstruct` leaves of complete rows.
        """
        check_is_fitted(self, "model_")
        return self.spectrum_.discarded_variance(self.n_components_)

    # Fitting -------------------------------------------------------------------------------

    def _spec(self) -> FitSpec:
        return FitSpec(self._fit_model, tol=self.tol or DEFAULT_TOL, promises_density=False)

    def _fit_model(self, source: Source, options: EMOptions) -> Solved:
        if source.has_missing:
            return fit_asked(source, options, fit_ppca, self._asked_of_em(source))
        asked, choice = self._known_rank(source)
        # Iterated axes may be off by the angle; ARPACK's tol=0 asks for rounding.
        angle = self.tol if self.svd_solver == "arpack" else self.tol or ANGLE_TOLERANCE
        pca = fit_exact_spectrum(
            source, asked, solver=self._solver(source, asked), angle=min(angle, ANGLE_TOLERANCE)
        )
        kept = pca.U.shape[1]
        if self.n_components == "mle":
            kept = minka_rank(pca.spectrum)
        elif self.n_components is None:
            kept = pca.rank(source.dtype) or kept
        return closed_form(pca, kept), choice

    def _finish(self, source: Source, fit: GaussianFit) -> None:
        self.n_samples_ = source.observed().rows

    def _solver(self, source: Source, q: int | float | None) -> str:
        """svd_solver, exact where the oversampled space of "randomized" is the whole space."""
        most = most_components(source)
        if self.svd_solver != "randomized" or q is None or q + self.n_oversamples < most:
            return self.svd_solver
        return "covariance" if source.n_features == most else "gram"

    def _known_rank(self, source: Source) -> tuple[int | float | None, RankChoice | None]:
        """What the solver must find (None is everything), and why, where it was chosen."""
        asked = self.n_components
        truncated = self.svd_solver in TRUNCATED
        if asked == "mle" and truncated:
            raise ValueError(
                f"n_components='mle' cannot be a string with svd_solver={self.svd_solver!r}: it "
                "needs all eigenvalues. Use svd_solver='full', or n_components='auto'"
            )
        if asked is None and self.svd_solver == "arpack":
            return max(most_components(source) - 1, 1), None
        if asked is None or asked == "mle":
            return None, None
        if asked == "auto":
            choice = automatic_rank(source)
            return choice.n_components, choice
        if truncated or isinstance(asked, Integral):
            require_components(asked, source, self.svd_solver)
        return (int(asked) if isinstance(asked, Integral) else float(asked)), None

    def _asked_of_em(self, source: Source) -> int | float | str:
        """n_components without what only complete data have: "mle", and None where it is many."""
        asked = self.n_components
        if asked == "mle":
            raise ValueError(
                'n_components="mle" needs complete data; use "auto", which accepts missing values'
            )
        if asked is not None:
            return asked
        most = max(most_components(source) - 1, 1)
        if most <= ALL_BY_EM:
            return most
        warn(
            f"n_components=None asks for {most} components, which missing values make costly; "
            'choosing as n_components="auto" does. Give a number to have them',
            UserWarning,
        )
        return "auto"
