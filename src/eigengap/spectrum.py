"""The spectrum of a covariance as a value, and what follows from it alone."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, pi

import numpy as np

from eigengap.linalg import Array

EPS = float(np.finfo(np.float64).eps)
# Error of a computed singular value in units of eps s_1. It does not grow with the number of rows
# (below 5 from 4 to 10^6 rows and up to 300 columns), so a tolerance may not either.
SOLUTION = 16.0
CELLS = 4.0  # units in the last place of a cell, of which a sum of cells may be wrong


def rounding_along(U: Array, squares: Array, precision: float) -> Array:
    """(k,) variance along the axes U (d, k) that the rounding of the cells alone may have made.

    squares : (d,) mean squares of the columns about 0, not about their mean: a cell is stored to
    `precision` (machine epsilon of its type) times its own size.
    """
    return np.asarray((CELLS * precision) ** 2 * (squares @ U**2))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Leading eigenvalues of a covariance matrix with the variance that they do not show.

    The covariance has divisor sum_w (maximum likelihood); `explained_variance` converts to
    scikit-learn's divisor sum_w - 1.

    Attributes
    ----------
    lam : (r,) eigenvalues, descending, non-negative
    total : sum of all d eigenvalues, known even where the small ones are not
    sum_w : sum of the row weights (the number of rows where there are none)
    d : number of features
    complete : whether `lam` holds every eigenvalue that can differ from zero
    """

    lam: Array
    total: float
    sum_w: float
    d: int
    complete: bool

    def noise_variance(self, q: int) -> float:
        """Mean of the d - q discarded eigenvalues: sigma2 of PPCA (Tipping and Bishop 1999, Eq. 8).

        It is 0 at q = d, where nothing is discarded.
        """
        self._check_rank(q)
        if q == self.d:
            return 0.0
        return self.discarded_variance(q) / (self.d - q)

    def discarded_variance(self, q: int) -> float:
        """Sum of the eigenvalues beyond the q-th: the mean squared reconstruction error.

        Summed from the small eigenvalues where they are known, because total - retained cancels.
        """
        self._check_rank(q)
        if self.complete:
            return float(np.sum(self.lam[q:][::-1]))
        return max(self.total - float(np.sum(self.lam[:q])), 0.0)

    def explained_variance(self, q: int) -> Array:
        """The first q eigenvalues at divisor sum_w - 1, as scikit-learn reports them."""
        self._check_rank(q)
        return self.lam[:q] * (self.sum_w / (self.sum_w - 1.0))

    def explained_ratio(self, q: int) -> Array:
        """Share of the total variance along each of the first q axes; zeros where there is none."""
        self._check_rank(q)
        if self.total <= 0.0:
            return np.zeros(q)
        return self.lam[:q] / self.total

    def log_likelihood(self, q: int) -> float:
        """Maximised PPCA log-likelihood of all rows with q components (T&B 1999, Eqs. 4 and 8).

        -sum_w / 2 (d ln 2 pi + sum_{j <= q} ln lam_j + (d - q) ln sigma2 + d); +inf where the
        covariance is singular, for then the likelihood has no maximum.
        """
        sigma2 = self.noise_variance(q)
        retained = self.lam[:q]
        if np.any(retained <= 0.0) or (q < self.d and sigma2 <= 0.0):
            return inf
        log_det = float(np.sum(np.log(retained)))
        if q < self.d:
            log_det += (self.d - q) * log(sigma2)
        return -0.5 * self.sum_w * (self.d * (log(2 * pi) + 1.0) + log_det)

    @property
    def rounding(self) -> float:
        """Eigenvalue up to which it may be the error of the solution alone.

        The square of max(d, SOLUTION) eps s_1; neither the number of rows nor their weights
        enter, for the error of a singular value does not grow with them.
        """
        largest = float(self.lam[0]) if len(self.lam) else 0.0
        return (max(float(self.d), SOLUTION) * EPS) ** 2 * largest

    def rank(self) -> int:
        """Number of known eigenvalues above `rounding`."""
        return int(np.sum(self.lam > self.rounding))

    def rank_for_fraction(self, fraction: float) -> int:
        """Fewest components whose share of the total variance exceeds `fraction`.

        A share that is met exactly does not do, as in scikit-learn. Needs enough known eigenvalues.
        """
        share = np.cumsum(self.explained_ratio(len(self.lam)))
        q = int(np.searchsorted(share, fraction, side="right")) + 1
        if q > len(self.lam):
            if not self.complete:
                raise ValueError(
                    f"the {len(self.lam)} known eigenvalues explain only {share[-1]:.3f} of the "
                    f"variance, less than {fraction}"
                )
            q = len(self.lam)
        return q

    def _check_rank(self, q: int) -> None:
        if not 0 <= q <= len(self.lam):
            raise ValueError(f"q = {q} is outside 0..{len(self.lam)}, the known eigenvalues")
