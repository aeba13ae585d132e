"""The linear-Gaussian model as an immutable value.

    x = W z + mu + e,   z ~ N(0, I_q),   e ~ N(0, diag(psi))

Probabilistic PCA is psi = sigma2 (1, ..., 1) (Tipping and Bishop 1999), factor analysis any psi >=
0. A value does not know how it was fitted. NaN marks a missing value; every method takes incomplete
rows and marginalises over the missing values exactly. No method but `covariance` and `precision`
forms a d x d matrix. psi may hold zeros (PCA's limit sigma2 -> 0, Heywood cases): everything is
then the limit in which all of them vanish at one rate, psi_j = epsilon noise_unit_j^2
(`noiseless`). Without any noise W E[z | x] is the orthogonal projection. Densities exist as long as
the covariance of what was observed is regular; where it is not, the limit of ln p is -inf off the
model's plane and inf on it, and `log_likelihood` raises `SingularModelError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from eigengap.exceptions import SingularModelError
from eigengap.linalg import Array, sign_rule
from eigengap.models.gaussian import noiseless as near_exact
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.models.gaussian.posterior import (
    BlockCoefficients,
    Coefficients,
    Posterior,
    RowPosteriors,
    is_nearly_exact,
    projected_variance,
    square_roots,
)
from eigengap.models.maps.affine import AffineMap


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    """x = W z + mu + e with z ~ N(0, I) and e ~ N(0, diag(psi)).

    Parameters
    ----------
    W : array of shape (d, q)
        Loadings.
    mu : array of shape (d,)
        Mean.
    psi : array of shape (d,)
        Noise variance of each feature, not negative.
    noise_unit : array of shape (d,), default=None
        Units of the features in which noise variances of 0 are approached at one rate; None for 1.
        It matters only where features without noise contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import LinearGaussian
    >>> model = LinearGaussian(W=[[2.0], [1.0]], mu=[0.0, 0.0], psi=[1.0, 1.0])
    >>> mean, variance = model.conditional(np.array([[3.0, np.nan]]))
    >>> mean
    array([[3. , 1.2]])
    >>> variance
    array([[0. , 1.2]])
    """

    W: Array
    mu: Array
    psi: Array
    noise_unit: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = ("W", "mu", "psi") if self.noise_unit is None else ("W", "mu", "psi", "noise_unit")
        for name in given:
            value = np.array(getattr(self, name), dtype=np.float64, copy=True)
            if not np.all(np.isfinite(value)):
                raise ValueError(f"{name} holds NaN or infinity")
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        d = len(self.mu)
        if self.W.ndim != 2 or self.W.shape[0] != d or self.psi.shape != (d,):
            raise ValueError(
                f"shapes do not fit: W {self.W.shape}, mu {self.mu.shape}, psi {self.psi.shape}; "
                "expected (d, q), (d,), (d,)"
            )
        if np.any(self.psi < 0):
            raise ValueError(f"psi is negative at feature {int(np.argmax(self.psi < 0))}")
        if self.noise_unit is not None and (
            self.noise_unit.shape != (d,) or np.any(self.noise_unit <= 0)
        ):
            raise ValueError(f"noise_unit must hold {d} positive numbers, one for each feature")

    @property
    def d(self) -> int:
        return int(self.W.shape[0])

    @property
    def q(self) -> int:
        return int(self.W.shape[1])

    @property
    def is_isotropic(self) -> bool:
        """Whether all features have the same noise variance, as in PPCA."""
        return bool(np.all(self.psi == self.psi[0])) if self.d else True

    @property
    def gaussian(self) -> LinearGaussian:
        """The Gaussian of this location and scatter: itself, unless it has other tails."""
        return self

    # Posteriors and densities ---------------------------------------------------------------
    #
    # `cell_sd` (n, d) holds the known standard deviations of observed values, in addition to psi; 0
    # where there is none.

    def posterior(self, X: ArrayLike, cell_sd: Array | None = None) -> Posterior:
        """z | x for every row (n, d): T&B 1999, Eq. 6, over the observed values."""
        X = self._rows(X)
        return Posterior.of(self.row_posteriors(X, cell_sd), len(X), self.q)

    def posterior_mean(self, X: ArrayLike, cell_sd: Array | None = None) -> Array:
        """E[z | x] for every row: (n, q)."""
        X = self._rows(X)
        mean = np.empty((len(X), self.q))
        for part in self.row_posteriors(X, cell_sd):
            mean[part.at] = part.mean
        return mean

    def log_likelihood(self, X: ArrayLike, cell_sd: Array | None = None) -> Array:
        """ln p(observed part of x) for every row: (n,); 0 for a row without observed values.

        Raises SingularModelError where the observed part has no density.
        """
        X = self._rows(X)
        result = np.empty(len(X))
        for part in self.row_posteriors(X, cell_sd):
            part.require_density()
            result[part.at] = part.log_density
        return result

    def log_likelihood_limit(self, X: ArrayLike, cell_sd: Array | None = None) -> Array:
        """`log_likelihood`, and where there is no density its limit as the noise vanishes: (n,).

        That is -inf for a row off the model's plane, by more than rounding, and inf for one on it.
        """
        X = self._rows(X)
        result = np.empty(len(X))
        for part in self.row_posteriors(X, cell_sd):
            if part.has_density:
                result[part.at] = part.log_density
            else:
                result[part.at] = np.where(np.isinf(part.distance), -inf, inf)
        return result

    # The missing values given the observed ones -------------------------------------------

    def conditional(self, X: ArrayLike, cell_sd: Array | None = None) -> tuple[Array, Array]:
        """Mean and variance of every value given the observed values of its row: (n, d), (n, d).

        Observed values are returned as they are, with variance 0.
        """
        X = self._rows(X)
        mean, variance = np.empty(X.shape), np.empty(X.shape)
        has_variance = bool(np.any(self.W) or np.any(self.psi))  # a constant table has none
        for part in self.row_posteriors(X, cell_sd):
            mean[part.at] = part.mean @ self.W.T + self.mu
            variance[part.at] = projected_variance(self.W, part.S).T + self.psi
            factor = part.variance_factor if has_variance else None
            if factor is not None:
                variance[part.at] *= factor[:, None]
        observed = ~np.isnan(X)
        np.copyto(mean, X, where=observed)
        variance[observed] = 0.0
        return mean, variance

    def project(self, X: ArrayLike) -> Array:
        """The nearest point of the model's plane to every row, in units of the noise: (n, d).

        W (W^T Psi^-1 W)^-1 W^T Psi^-1 (x - mu) + mu with missing values at their conditional mean:
        for isotropic noise, zero included, the orthogonal projection, T&B 1999's optimal
        reconstruction W (W^T W)^-1 M E[z | x] + mu.
        """
        return self._cells().nearest(self.conditional_mean(X) - self.mu) + self.mu

    def conditional_mean(self, X: ArrayLike, cell_sd: Array | None = None) -> Array:
        """E[x | observed values]: (n, d), observed values as they are."""
        X = self._rows(X)
        return np.where(np.isnan(X), self.denoised(X, cell_sd), X)

    def denoised(self, X: ArrayLike, cell_sd: Array | None = None) -> Array:
        """E[W z + mu | observed values]: (n, d)."""
        return self.posterior_mean(X, cell_sd) @ self.W.T + self.mu

    def sample_conditional(
        self, X: ArrayLike, rng: np.random.Generator, cell_sd: Array | None = None
    ) -> Array:
        """One draw of the missing values given the observed ones: (n, d), these as they are."""
        X = self._rows(X)
        drawn = np.empty(X.shape)
        for part in self.row_posteriors(X, cell_sd):
            errors = part.draw_errors(self.W, self.psi, rng)
            drawn[part.at] = part.mean @ self.W.T + self.mu + errors
        return np.where(np.isnan(X), drawn, X)

    def given(self, x: ArrayLike) -> LinearGaussian:
        """The model of the missing values of one row given its observed ones: a model again."""
        row = self._rows(np.asarray(x, dtype=np.float64)[None, :])
        (part,) = self.row_posteriors(row)
        missing = np.isnan(row[0])
        W = self.W[missing]
        return LinearGaussian(
            W=W @ square_roots(part.covariances())[0],
            mu=self.mu[missing] + W @ part.mean[0],
            psi=self.psi[missing],
            noise_unit=self._unit_at(missing),
        )

    def marginal(self, columns: ArrayLike) -> Self:
        """The model of some of the features, in the order asked for."""
        at = np.asarray(columns)
        return replace(
            self, W=self.W[at], mu=self.mu[at], psi=self.psi[at], noise_unit=self._unit_at(at)
        )

    # Draws, moments, forms -----------------------------------------------------------------

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent rows: (n, d)."""
        z = rng.standard_normal((n, self.q))
        return z @ self.W.T + self.mu + rng.standard_normal((n, self.d)) * np.sqrt(self.psi)

    def covariance(self) -> Array:
        """C = W W^T + diag(psi): (d, d)."""
        C = self.W @ self.W.T
        C[np.diag_indices(self.d)] += self.psi
        return C

    def variances(self) -> Array:
        """The diagonal of the covariance: (d,)."""
        return self._diagonal()

    def precision(self) -> Array:
        """C^-1 by Woodbury's identity through the q x q matrix I + W^T Psi^-1 W: (d, d).

        Where a noise variance is small its two terms cancel to a few digits; a step of Newton's
        method for the inverse, of the same cost, brings them back.
        """
        if is_nearly_exact(self.W, self.psi):
            return self._precision_near_exact()
        scaled = self.W / self.psi[:, None]
        P = np.eye(self.q) + self.W.T @ scaled
        precision = -scaled @ np.linalg.solve(P, scaled.T)
        precision[np.diag_indices(self.d)] += 1.0 / self.psi
        off = -self.psi[:, None] * precision - self.W @ (self.W.T @ precision)  # I - C C^-1
        off[np.diag_indices(self.d)] += 1.0
        precision += off / self.psi[:, None] - scaled @ np.linalg.solve(P, scaled.T @ off)
        return (precision + precision.T) / 2

    def canonical(self) -> Self:
        """The same density with W^T Psi^-1 W diagonal, descending, and signs by the rule.

        W is determined up to a rotation of z; for isotropic noise this rotation makes W's columns
        the principal axes scaled by sqrt(lam - sigma2) (T&B 1999, Eq. 7 with R = I).
        """
        W = self.W @ self._rotation()
        return replace(self, W=W * sign_rule(W))

    def principal_axes(self) -> tuple[Array, Array]:
        """Orthonormal axes U (d, q) of W and the variances lam (q,) of C along them.

        For isotropic noise these are the leading eigenpairs of C; directions that W does not load
        have lam = sigma2.
        """
        U, length, _ = np.linalg.svd(self.W, full_matrices=False)
        U = U * sign_rule(U)
        return U, length**2 + np.einsum("jq,j,jq->q", U, self.psi, U)

    def rescaled(self, scale: Array, shift: Array | float = 0.0) -> Self:
        """The model of scale * x + shift, column by column."""
        return replace(
            self,
            W=self.W * scale[:, None],
            mu=self.mu * scale + shift,
            psi=self.psi * scale**2,
            noise_unit=None if np.all(self.psi > 0) else self.unit * np.abs(scale),
        )

    def encoder(self) -> AffineMap:
        """The affine map that takes a complete row to E[z | x], and back by W."""
        if is_nearly_exact(self.W, self.psi):
            A: Array = self._cells().gain()
        else:
            scaled = self.W / self.psi[:, None]
            A = np.asarray(np.linalg.solve(np.eye(self.q) + self.W.T @ scaled, scaled.T))
        return AffineMap(A=A, B=self.W, mean=self.mu)

    # ---------------------------------------------------------------------------------------

    def _rows(self, X: ArrayLike) -> NDArray[Any]:
        rows = np.asarray(X)
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.d:
            raise ValueError(f"expected rows of {self.d} features, got shape {rows.shape}")
        return rows

    def variance_factors(self, X: ArrayLike) -> Array | None:
        """(n,) `RowPosteriors.variance_factor` of every row; None where it is 1."""
        return None

    def row_posteriors(
        self, X: NDArray[Any], cell_sd: Array | None = None
    ) -> Iterator[RowPosteriors]:
        """Posteriors of all rows, in parts, by the route that keeps the digits."""
        least = self.psi
        if cell_sd is not None:  # at least so much noise has each column's observed values
            least = least + np.min(cell_sd, axis=0, where=~np.isnan(X), initial=inf) ** 2
        if is_nearly_exact(self.W, least):
            known = None if cell_sd is None else cell_sd**2
            yield from near_exact.noiseless_posteriors(
                X, self.W, self.mu, self.psi, self.unit, known
            )
            return
        rows = prepare_rows(X, None, self.mu, None, self.q, cell_sd=cell_sd)
        block = BlockCoefficients.of(rows, Coefficients(self.W, np.zeros(self.d), self.psi))
        yield from map(block.posteriors, rows.chunks(self.q))

    def _diagonal(self) -> Array:
        """(d,) of W W^T + diag(psi)."""
        return np.asarray(np.einsum("jq,jq->j", self.W, self.W) + self.psi)

    def _rotation(self) -> Array:
        """(q, q) eigenvectors of W^T Psi^-1 W, by falling eigenvalue; those without noise first."""
        if self.is_isotropic and self.noise_unit is None:
            return right_singular_vectors(self.W)
        if not is_nearly_exact(self.W, self.psi):
            return right_singular_vectors(self.W / np.sqrt(self.psi)[:, None])
        exact, fixed = self._cells().constraints
        by_exact = right_singular_vectors(self.W[exact] / self.unit[exact][:, None])
        by_exact = by_exact[:, : self.q - fixed.free.shape[1]]
        noise = np.sqrt(self.psi[~exact])[:, None]
        by_others = right_singular_vectors(self.W[~exact] @ fixed.free / noise)
        return np.hstack([by_exact, fixed.free @ by_others])

    def _cells(self) -> near_exact.Cells:
        """All cells of a complete row."""
        return near_exact.Cells(self.W, self.psi, self.unit, bool(np.all(self.psi <= 0.0)))

    @property
    def unit(self) -> Array:
        """(d,) `noise_unit`."""
        return np.ones(self.d) if self.noise_unit is None else self.noise_unit

    def _unit_at(self, some: NDArray[Any]) -> Array | None:
        return None if self.noise_unit is None else self.noise_unit[some]

    def _precision_near_exact(self) -> Array:
        """Through the correlations, which do not depend on the features' units."""
        size = np.sqrt(self._diagonal())
        size = np.where(size > 0, size, 1.0)
        scaled = self.W / size[:, None]
        lam, U = np.linalg.eigh(scaled @ scaled.T + np.diag(self.psi / size**2))
        if lam[0] <= self.d * np.finfo(np.float64).eps * lam[-1]:
            raise SingularModelError(
                "the covariance is singular to working precision, so it has no inverse: fit fewer "
                "components, or give a noise variance"
            )
        return np.asarray((U / lam) @ U.T / np.outer(size, size))


def right_singular_vectors(A: Array) -> Array:
    """(q, q) of A (d, q), by falling singular value; where q > d those of no length too."""
    if 0 in A.shape:
        return np.eye(A.shape[1])
    Vt = np.linalg.svd(A, full_matrices=A.shape[0] < A.shape[1])[2]
    return np.asarray(Vt.T)


@dataclass(frozen=True, eq=False)
class IndependentColumns:
    """Independent Gaussian columns, a model without components: their predictive distributions.

    A new value of a column observed in n rows follows Student's t with n - 1 degrees of freedom
    about the mean, with scale s sqrt(1 + 1 / n), s^2 at divisor n - 1.
    """

    mean: Array  # (d,)
    degrees: Array  # (d,) of freedom
    scale: Array  # (d,)

    @classmethod
    def of(cls, X: Array, weight: Array | None) -> IndependentColumns:
        observed = ~np.isnan(X)
        w = np.where(observed, 1.0 if weight is None else weight[:, None], 0.0)
        n = w.sum(axis=0)
        mean = np.sum(w * np.where(observed, X, 0.0), axis=0) / n
        squares = np.sum(w * np.where(observed, X - mean, 0.0) ** 2, axis=0)
        degrees = np.maximum(n - 1.0, 1.0)
        return cls(mean, degrees, np.sqrt(squares / degrees * (1.0 + 1.0 / n)))

    def std(self) -> Array:
        """(d,) such that +- 1.96 of them are the 95 % interval of the t distribution."""
        return np.asarray(self.scale * stdtrit(self.degrees, 0.975) / stdtrit(inf, 0.975))
