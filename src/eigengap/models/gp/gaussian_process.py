"""Functions from latent space to the columns of a table, as a value: what a GPLVM has learned.

Every column of x is a function of the latents plus noise, x_j = mean_j + unit_j (f_j(z) + e), with
e ~ N(0, sigma2) and f_j a Gaussian process with one kernel for all columns (Lawrence 2005). What
was learned of f_j is a Gaussian process again:

    E f_j(z)   = k(z, U) w_j
    var f_j(z) = k(z, z) - k(z, U) B_j k(U, z)

Exact: U are the latents of the rows, B_j = (K + sigma2 I)^-1 on the rows in which column j was
observed and 0 elsewhere, w_j = B_j y_j. With inducing points U (Titsias 2009; Titsias and Lawrence
2010): B_j = Kmm^-1 - A_j^-1, w_j = A_j^-1 Psi1'y_j / sigma2, A_j = Kmm + Psi2 / sigma2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gp.expected import (
    expected_diagonal,
    expected_matrix,
    expected_products,
)
from eigengap.models.gp.kernels import LatentKernel
from eigengap.models.maps.landmark import row_pieces

JITTER = 1e-6  # of the inducing points' covariance, in units of its mean diagonal


@dataclass(frozen=True, eq=False)
class GaussianProcesses:
    """One Gaussian process of z for each column.

    Attributes
    ----------
    kernel : covariance function
    noise_variance : sigma2
    support : (M, q) U
    weights : (M, d) w_j, columns
    reductions : (P, M, M) distinct B
    pattern : (d,) index into `reductions` of each column
    mean : (d,) of the columns
    unit : (d,) by which the columns were divided
    """

    kernel: LatentKernel
    noise_variance: float
    support: Array
    weights: Array
    reductions: Array
    pattern: NDArray[np.intp]
    mean: Array
    unit: Array

    @property
    def q(self) -> int:
        return int(self.support.shape[1])

    @property
    def d(self) -> int:
        return len(self.mean)

    def ordered(self, order: Any) -> GaussianProcesses:
        """The same with the latent coordinates in another order."""
        return replace(self, kernel=self.kernel.ordered(order), support=self.support[:, order])

    # Predictions ---------------------------------------------------------------------------

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Mean and variance (n, d) of cells at the points Z (n, q), noise in the variance."""
        mean, variance = np.empty((len(Z), self.d)), np.empty((len(Z), self.d))
        for rows in row_pieces(len(Z), len(self.support)):
            k = self.kernel.matrix(Z[rows], self.support)
            mean[rows] = k @ self.weights
            prior = self.kernel.diagonal(Z[rows])
            for p, B in enumerate(self.reductions):
                left = np.maximum(prior - np.einsum("nm,nm->n", k @ B, k), 0.0)
                variance[rows, self.pattern == p] = (left + self.noise_variance)[:, None]
        return self._in_data_units(mean, variance)

    def expect(self, mu: Array, s: Array) -> tuple[Array, Array]:
        """Mean and variance (n, d) of cells at points N(mu, diag(s)), for RBF and linear."""
        mean, variance = np.empty((len(mu), self.d)), np.empty((len(mu), self.d))
        # w_j w_j' - B_j of every column, flat: (M M, d)
        products = np.einsum("mj,lj->mlj", self.weights, self.weights)
        products -= np.moveaxis(self.reductions[self.pattern], 0, 2)
        products = products.reshape(-1, self.d)
        for rows in row_pieces(len(mu), len(self.support) ** 2):
            at, s_at = mu[rows], s[rows]
            mean[rows] = expected_matrix(self.kernel, at, s_at, self.support) @ self.weights
            pairs = expected_products(self.kernel, at, s_at, self.support)
            prior = expected_diagonal(self.kernel, at, s_at)[:, None]
            second = pairs.reshape(len(at), -1) @ products
            left = np.maximum(prior + second - mean[rows] ** 2, 0.0)
            variance[rows] = left + self.noise_variance
        return self._in_data_units(mean, variance)

    def slopes(self, Z: Array) -> Array:
        """Derivatives of the means with respect to the points Z, in data units: (n, d, q)."""
        found = np.empty((len(Z), self.d, self.q))
        for rows in row_pieces(len(Z), len(self.support) * self.q):
            k = self.kernel.slopes(Z[rows], self.support)  # (n, M, q)
            found[rows] = np.einsum("nmk,mj->njk", k, self.weights, optimize=True)
        return np.asarray(found * self.unit[:, None])

    def standardised(self, X: Array) -> Array:
        """Rows of data in the units of the processes; NaN stays."""
        return np.asarray((X - self.mean) / self.unit)

    def _in_data_units(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        return mean * self.unit + self.mean, variance * self.unit**2


def given_latents(
    kernel: LatentKernel,
    noise_variance: float,
    Z: Array,
    Y: Array,
    groups: Array,
    of_column: NDArray[np.intp],
) -> GaussianProcesses:
    """Condition on the observed values of standardised Y (n, d) at known latents Z (n, q).

    groups (P, n) is 1 where the columns of a group were observed, of_column (d,) their group.
    """
    n, d = Y.shape
    K = kernel.matrix(Z, Z)
    K[np.diag_indices(n)] += noise_variance
    weights, reductions = np.zeros((n, d)), np.zeros((len(groups), n, n))
    for p, group in enumerate(groups):
        observed, own = np.flatnonzero(group), np.flatnonzero(of_column == p)
        factor = scipy.linalg.cho_factor(K[np.ix_(observed, observed)], lower=True)
        inverse = scipy.linalg.cho_solve(factor, np.eye(len(observed)))
        reductions[p][np.ix_(observed, observed)] = inverse
        weights[np.ix_(observed, own)] = inverse @ Y[np.ix_(observed, own)]
    return GaussianProcesses(
        kernel, noise_variance, Z, weights, reductions, of_column, np.zeros(d), np.ones(d)
    )


def given_uncertain_latents(
    kernel: LatentKernel,
    noise_variance: float,
    U: Array,
    mu: Array,
    s: Array,
    Y: Array,
    groups: Array,
    of_column: NDArray[np.intp],
) -> GaussianProcesses:
    """The best q(f) through inducing points U (M, q) for latents N(mu, diag(s)), both (n, q).

    Missing values of Y are 0; groups and of_column as in `given_latents`.
    """
    (M, _), (n, d) = U.shape, Y.shape
    Kmm = kernel.matrix(U, U)
    Kmm[np.diag_indices(M)] += JITTER * np.trace(Kmm) / M
    psi2 = np.zeros((len(groups), M * M))
    for rows in row_pieces(n, M * M):
        pairs = expected_products(kernel, mu[rows], s[rows], U)
        psi2 += groups[:, rows] @ pairs.reshape(-1, M * M)
    products = expected_matrix(kernel, mu, s, U).T @ Y / noise_variance  # (M, d)
    L = np.linalg.cholesky(Kmm)
    R = scipy.linalg.solve_triangular(L, np.eye(M), lower=True)
    weights, reductions = np.empty((M, d)), np.empty((len(groups), M, M))
    for p, pairs in enumerate(psi2.reshape(-1, M, M)):
        T = np.eye(M) + R @ pairs @ R.T / noise_variance
        # Kmm^-1 - A^-1 = L^-T (I - T^-1) L^-1: no difference of large numbers.
        lam, V = np.linalg.eigh(T)
        H = V.T @ R
        reductions[p] = (H.T * ((lam - 1.0) / lam)) @ H
        own = of_column == p
        weights[:, own] = H.T @ ((H @ products[:, own]) / lam[:, None])
    return GaussianProcesses(
        kernel, noise_variance, U, weights, reductions, of_column, np.zeros(d), np.ones(d)
    )
