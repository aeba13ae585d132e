"""The linear model with multivariate t rows: a density that a few outliers do not move.

    x = W z + mu + e,   z ~ N(0, I / u),   e ~ N(0, diag(psi) / u),   u ~ Gamma(nu / 2, nu / 2)

with one u per row, so that what was observed of a row is multivariate t with nu degrees of freedom,
location mu and scatter C = W W^T + diag(psi) (Lange, Little and Taylor 1989; for factor analysis
and PPCA McLachlan, Bean and Ben-Tovim Jones 2007). With p observed values at the distance
delta = r^T C_oo^-1 r,

    E[u | x] = (nu + p) / (nu + delta),

the weight of the row: far rows count little. nu -> infinity is the Gaussian. Without noise
(psi = 0) a row off the model's plane is infinitely far: its weight is 0, means are the Gaussian's,
and what depends on its scale (variances, draws) raises `SingularModelError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import RowPosteriors

NO_CELL_SD = (
    "cell_sd cannot be used with Student noise: a row's scale acts on all of its noise, and what "
    "is known of a cell would not follow it. Use Gaussian noise, or leave cell_sd out"
)


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

    # Posteriors -----------------------------------------------------------------------------

    def row_weights(self, X: ArrayLike) -> Array:
        """E[u | x] of every row, (n,): about 1 for ordinary rows, near 0 for outlying ones."""
        X = self._rows(X)
        weights = np.empty(len(X))
        for part in self.row_posteriors(X):
            weights[part.at] = part.expected_u
        return weights

    def variance_factors(self, X: ArrayLike) -> Array:
        X = self._rows(X)
        factors = np.empty(len(X))
        for part in self.row_posteriors(X):
            factors[part.at] = part.variance_factor
        return factors

    def given(self, x: ArrayLike) -> StudentLinearGaussian:
        """The model of the missing values of one row given its observed ones: Student again."""
        row = self._rows(np.asarray(x, dtype=np.float64)[None, :])
        (part,) = self.row_posteriors(row)
        part.require_density()
        p = int(part.row_cells[0])
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

    def row_posteriors(
        self, X: NDArray[Any], cell_sd: Array | None = None
    ) -> Iterator[RowPosteriors]:
        if cell_sd is not None:
            raise ValueError(NO_CELL_SD)
        for part in super().row_posteriors(X):
            yield replace(part, nu=self.nu)

    def _variance_factor(self) -> float:
        if self.nu <= 2.0:
            raise ValueError(
                f"a Student density with {self.nu:.3g} degrees of freedom has no covariance (that "
                "takes more than 2); model_.scatter() is the matrix that it has instead"
            )
        return self.nu / (self.nu - 2.0)
