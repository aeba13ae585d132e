"""The linear model with Student rows: a density that a few wild rows do not move.

    x = W z + mu + e,   z ~ N(0, I / u),   e ~ N(0, diag(psi) / u),   u ~ Gamma(nu / 2, nu / 2)

with one u per row, so that what was seen of a row is multivariate t with nu degrees of freedom,
location mu and scatter C = W W^T + diag(psi) (Lange, Little and Taylor 1989; for factor analysis
and PPCA McLachlan, Bean and Ben-Tovim Jones 2007). With p seen cells at the distance
delta = r^T C_oo^-1 r,

    E[u | x] = (nu + p) / (nu + delta),

the weight of the row: far rows count little. nu -> infinity is the Gaussian. Without noise
(psi = 0) a row off the model's plane is infinitely far: its weight is 0, means are the Gaussian's,
and what depends on its scale (variances, draws) raises `SingularModelError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln

from eigengap.linalg import Array, unpack
from eigengap.models.gaussian.linear_gaussian import LinearGaussian, Part, square_roots


@dataclass(frozen=True, eq=False)
class StudentLinearGaussian(LinearGaussian):
    """x = W z + mu + e where each row has its own scale: multivariate t.

    Parameters
    ----------
    W : array of shape (d, q)
        Loadings.
    mu : array of shape (d,)
        Location, the mean where nu > 1.
    psi : array of shape (d,)
        Scatter of the noise of each feature; its variance is nu / (nu - 2) times as large.
    nu : float
        Degrees of freedom, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap.models.gaussian.student import StudentLinearGaussian
    >>> model = StudentLinearGaussian(W=[[2.0], [1.0]], mu=[0.0, 0.0], psi=[1.0, 1.0], nu=3.0)
    >>> model.row_weights(np.array([[1.0, 0.5], [np.nan, 0.5], [50.0, np.nan]])).round(3)
    array([1.558, 1.28 , 0.008])
    """

    nu: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.nu < np.inf:
            raise ValueError(f"nu, the degrees of freedom, must be positive and finite: {self.nu}")
        object.__setattr__(self, "nu", float(self.nu))

    @property
    def gaussian(self) -> LinearGaussian:
        """The Gaussian of the same location and scatter: a row whose u is 1."""
        return LinearGaussian(W=self.W, mu=self.mu, psi=self.psi, noise_unit=self.noise_unit)

    # What a row says -----------------------------------------------------------------------

    def row_weights(self, X: ArrayLike) -> Array:
        """E[u | x] of every row, (n,): about 1 for ordinary rows, near 0 for outlying ones."""
        X = self._rows(X)
        weights = np.empty(len(X))
        for part in self._parts(X):
            weights[part.at] = expected_u(part.distance, _cells(X, part.at), self.nu)
        return weights

    def row_inflation(self, X: ArrayLike) -> Array:
        """(nu + delta) / (nu + p - 2) of every row, (n,)."""
        X = self._rows(X)
        inflation = np.empty(len(X))
        for part in self._parts(X):
            inflation[part.at] = self._inflation(part, X)
        return inflation

    def sample_conditional(
        self, X: ArrayLike, rng: np.random.Generator, cell_sd: Array | None = None
    ) -> Array:
        """One draw of the unseen cells given the seen ones: u first, then the Gaussian."""
        X = self._rows(X)
        drawn = np.empty(X.shape)
        for part in self._parts(X, cell_sd):
            self._require_density(part)
            c = len(part.at)
            shape = (self.nu + _cells(X, part.at)) / 2
            u = rng.gamma(shape) * 2 / (self.nu + part.distance)
            roots = square_roots(unpack(part.S.T, self.q))
            z = (roots @ rng.standard_normal((c, self.q, 1)))[:, :, 0]
            noise = z @ self.W.T + rng.standard_normal((c, self.d)) * np.sqrt(self.psi)
            drawn[part.at] = part.Z @ self.W.T + self.mu + noise / np.sqrt(u)[:, None]
        return np.where(np.isnan(X), drawn, X)

    def given(self, x: ArrayLike) -> StudentLinearGaussian:
        """The model of the unseen cells of one row given its seen ones: Student again."""
        row = self._rows(np.asarray(x, dtype=np.float64)[None, :])
        (part,) = self._parts(row)
        self._require_density(part)
        p = int(_cells(row, part.at)[0])
        scale = (self.nu + float(part.distance[0])) / (self.nu + p)
        inner = super().given(x)
        return StudentLinearGaussian(
            W=inner.W * np.sqrt(scale),
            mu=inner.mu,
            psi=inner.psi * scale,
            nu=self.nu + p,
            noise_unit=inner.noise_unit,
        )

    # Draws and moments ---------------------------------------------------------------------

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent rows: (n, d)."""
        u = rng.gamma(self.nu / 2, size=n) * 2 / self.nu
        centred = super().sample(n, rng) - self.mu
        return np.asarray(self.mu + centred / np.sqrt(u)[:, None])

    def scatter(self) -> Array:
        """C = W W^T + diag(psi): (d, d)."""
        return super().covariance()

    def covariance(self) -> Array:
        """nu / (nu - 2) C: (d, d)."""
        return self._variance_factor() * super().covariance()

    def variances(self) -> Array:
        return self._variance_factor() * super().variances()

    def precision(self) -> Array:
        return np.asarray(super().precision() / self._variance_factor())

    # ---------------------------------------------------------------------------------------

    def _parts(self, X: NDArray[Any], cell_sd: Array | None = None) -> Iterator[Part]:
        if cell_sd is not None:
            raise ValueError(
                "cell_sd cannot be used with Student noise: a row's scale acts on all of its "
                "noise, and what is known of a cell would not follow it. Use Gaussian noise, or "
                "leave cell_sd out"
            )
        return super()._parts(X)

    def _log_density(self, part: Part, X: NDArray[Any]) -> Array:
        """(c,) ln of the t density."""
        return log_density(part.log_norm, part.distance, _cells(X, part.at), self.nu)

    def _inflation(self, part: Part, X: NDArray[Any]) -> Array:
        """(nu + delta) / (nu + p - 2): a row that lies far out is less sure of its gaps.

        Infinite for nu + p <= 2.
        """
        self._require_density(part)
        left = self.nu + _cells(X, part.at) - 2.0
        finite = (self.nu + part.distance) / np.where(left > 0, left, 1.0)
        return np.where(left > 0, finite, np.inf)

    def _variance_factor(self) -> float:
        if self.nu <= 2.0:
            raise ValueError(
                f"a Student density with {self.nu:.3g} degrees of freedom has no covariance (that "
                "takes more than 2); model_.scatter() is the matrix that it has instead"
            )
        return self.nu / (self.nu - 2.0)


def expected_u(distance: Array, p: NDArray[np.intp], nu: float) -> Array:
    """E[u | x] = (nu + p) / (nu + delta)."""
    return np.asarray((nu + p) / (nu + distance))


def log_density(log_norm: Array, distance: Array, p: NDArray[np.intp], nu: float) -> Array:
    """ln t of rows with p seen cells: (c,), from ln |2 pi C_oo| and the distance."""
    tail = 0.5 * (nu + p) * np.log1p(distance / nu)
    return np.asarray(_log_gamma_ratios(int(np.max(p, initial=0)), nu)[p] - 0.5 * log_norm - tail)


def log_less_digamma(x: Any) -> Any:
    """ln x - psi(x) without cancellation for large x: Abramowitz and Stegun 6.3.18."""
    x = np.asarray(x, dtype=np.float64)
    large = np.maximum(x, 30.0)
    y = (1.0 / large) ** 2  # large**2 may overflow
    series = 0.5 / large + y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y / 240)))
    return np.where(x >= 30.0, series, np.log(x) - digamma(x))


def _log_gamma_ratios(most: int, nu: float) -> Array:
    """ln Gamma((nu + p) / 2) - ln Gamma(nu / 2) - p / 2 ln(nu / 2) for p = 0..most.

    By Gamma(x + 1) = x Gamma(x), a sum of ln(1 + k / nu): no difference of large numbers.
    """
    ratios = np.zeros(most + 1)
    steps = np.log1p(np.arange(max(most - 1, 0)) / nu)  # from p to p + 2
    ratios[2::2] = np.cumsum(steps[::2])
    if most >= 1:
        half = nu / 2
        if nu < 1e3:
            first = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(half)
        else:  # Tricomi and Erdelyi 1951
            first = -1 / (8 * half) + (1 / half) ** 3 / 192
        ratios[1] = first
        ratios[3::2] = first + np.cumsum(steps[1::2])
    return ratios


def _cells(X: NDArray[Any], at: NDArray[np.intp]) -> NDArray[np.intp]:
    """(c,) seen cells of some rows."""
    return np.asarray(X.shape[1] - np.count_nonzero(np.isnan(X[at]), axis=1))
