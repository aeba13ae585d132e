"""Asymptotic standard errors of a maximum-likelihood fit: the information and the delta method.

The parameters theta = (W, mu, psi) are not identified: W R is as good as W, so the information has
q (q - 1) / 2 null directions dW = W A with A skew. Of a function f that does not change along them
(aligned loadings, variances along the axes) the covariance is still defined,

    cov f = J I^- J^T,   J = df / dtheta,

for any generalised inverse I^- (Rao 1973, section 4a; for factor analysis Jennrich 1974). The
inverse of I + G G^T, G a basis of the null directions, is one. On complete data and at q axes of
PPCA this is Anderson (1963): lam_k has standard error lam_k (2 / n)^1/2.

The information is the expected one on complete data,

    I_ab = n / 2 tr(C^-1 dC/da C^-1 dC/db),

and the observed one where values are missing, for it alone is right when missingness depends on the
observed values (Kenward and Molenberghs 1998): differences of the score, and the score is an E-step
(Fisher's identity; Jamshidian and Jennrich 2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg

from eigengap.linalg import Array, unpack
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.sources import Block, Source, column
from eigengap.statistics.expected.gaussian import Expected

STEP = 1e-4  # of a difference, in units of each parameter's size: error of order STEP^2
SINGULAR = 1e-10  # squared pivot of the scaled information below which nothing identifies a value
MOST_PARAMETERS = 4000  # of a dense information matrix: 128 MB, and seconds to factorise
AT_FLOOR = 1e-5  # share of a column's variance below which its noise is at its bound


@dataclass(frozen=True, eq=False)
class Layout:
    """Where W (d, q), mu (d,) and the noise (1 or d numbers) stand in the vector theta."""

    d: int
    q: int
    isotropic: bool

    @property
    def size(self) -> int:
        return self.d * self.q + self.d + (1 if self.isotropic else self.d)

    def pack(self, model: LinearGaussian) -> Array:
        noise = model.psi[:1] if self.isotropic else model.psi
        return np.concatenate([model.W.ravel(), model.mu, noise])

    def unpack(self, theta: Array) -> LinearGaussian:
        d, q = self.d, self.q
        psi = np.broadcast_to(theta[d * q + d :], (d,))
        return LinearGaussian(W=theta[: d * q].reshape(d, q), mu=theta[d * q : d * q + d], psi=psi)

    def sizes(self, model: LinearGaussian) -> Array:
        """A length for each parameter, for differences: the column's sd, the noise itself."""
        deviation = np.sqrt(model.variances())
        noise = model.psi[:1] if self.isotropic else model.psi
        return np.concatenate([np.repeat(deviation, self.q), deviation, noise])

    def rotations(self, W: Array) -> Array:
        """The null directions dW = W A, A skew: (size, q (q - 1) / 2)."""
        pairs = [(k, l) for k in range(self.q) for l in range(k)]
        G = np.zeros((self.size, len(pairs)))
        for at, (k, l) in enumerate(pairs):
            dW = np.zeros_like(W)
            dW[:, k], dW[:, l] = W[:, l], -W[:, k]
            G[: W.size, at] = dW.ravel()
        return G


def standard_errors(
    source: Source,
    model: LinearGaussian,
    readings: Callable[[LinearGaussian], Array],
    *,
    isotropic: bool,
    fit_mean: bool = True,
    fit_noise: bool = True,
) -> Array:
    """Standard errors of readings(model), a vector that no rotation of z changes.

    `model` is the maximum-likelihood fit to `source`.
    """
    layout = Layout(model.d, model.q, isotropic)
    _refuse(layout, model, fit_noise, source.names)
    if source.has_missing:
        information = observed_information(source, model, layout)
    else:
        information = source.observed().sum_w * expected_information(model, layout)
    d, q = model.d, model.q
    learned = [True, fit_mean, fit_noise]  # loadings, mean, noise
    free = np.repeat(learned, [d * q, d, layout.size - d * q - d])
    J = jacobian(readings, model, layout)[:, free]
    return _delta_method(J, information[np.ix_(free, free)], layout.rotations(model.W)[free])


def _refuse(
    layout: Layout, model: LinearGaussian, fit_noise: bool, names: tuple[str, ...] | None
) -> None:
    if layout.size > MOST_PARAMETERS:
        raise ValueError(
            f"the model has {layout.size} parameters; asymptotic intervals need a matrix of that "
            f'size squared and are given up to {MOST_PARAMETERS}. Use method="bootstrap"'
        )
    d, q = layout.d, layout.q
    of_covariance = d * q - q * (q - 1) // 2 + (1 if layout.isotropic else d) * fit_noise
    if of_covariance > d * (d + 1) // 2:  # differences of sums need not find this singular
        raise ValueError(_UNIDENTIFIED)
    at_floor = np.flatnonzero(model.psi <= AT_FLOOR * model.variances())
    if fit_noise and len(at_floor):
        raise ValueError(
            f"the noise variance of column {column(names, int(at_floor[0]))} lies at its bound "
            "(a Heywood case, or no noise at all), where likelihood theory gives no intervals. Fit "
            'fewer components, or use method="bootstrap"'
        )


def expected_information(model: LinearGaussian, layout: Layout) -> Array:
    """Information of theta in one complete row: (size, size).

    With Q = C^-1 and B = Q W, dC/dW_jk = e_j w_k^T + w_k e_j^T gives
    Q_jj' (W^T B)_kk' + B_jk' B_j'k for two loadings, Q_jl B_lk for a loading and a noise variance,
    Q_jl^2 / 2 for two noise variances, and Q for the mean.
    """
    d, q = layout.d, layout.q
    Q = model.precision()
    B = Q @ model.W
    loadings = np.einsum("ij,kl->ikjl", Q, model.W.T @ B) + np.einsum("il,jk->ikjl", B, B)
    cross = np.einsum("jl,lk->jkl", Q, B).reshape(d * q, d)
    noise = 0.5 * Q**2
    if layout.isotropic:
        cross, noise = cross.sum(axis=1, keepdims=True), np.full((1, 1), noise.sum())
    information = np.zeros((layout.size, layout.size))
    W_, mu, psi = slice(0, d * q), slice(d * q, d * q + d), slice(d * q + d, None)
    information[W_, W_] = loadings.reshape(d * q, d * q)
    information[W_, psi], information[psi, W_] = cross, cross.T
    information[mu, mu] = Q
    information[psi, psi] = noise
    return information


def observed_information(source: Source, model: LinearGaussian, layout: Layout) -> Array:
    """Minus the second derivatives of the log-likelihood of the observed values: (size, size)."""
    rows = source.prepared(partial(_prepare, shift=model.mu, q=model.q))
    H = _derivatives(lambda theta: score(rows, theta, model.mu, layout), model, layout)
    return -(H + H.T) / 2


def score(rows: Source, theta: Array, shift: Array, layout: Layout) -> Array:
    """Derivatives of the log-likelihood by theta (size,), from one E-step (Fisher's identity)."""
    model = layout.unpack(theta)
    coefficients = Coefficients(model.W, model.mu - shift, model.psi)
    expected = rows.reduce(partial(Expected.of, coefficients=coefficients))
    A = unpack(np.ascontiguousarray(expected.A.T), layout.q + 1)  # (d, q + 1, q + 1)
    w = np.hstack([model.W, (model.mu - shift)[:, None]])  # (d, q + 1)
    Aw = np.einsum("dij,dj->di", A, w)
    by_w = (expected.B.T - Aw) / model.psi[:, None]
    residual = expected.squares - 2 * np.einsum("di,id->d", w, expected.B)
    residual += np.einsum("di,di->d", w, Aw)
    by_psi = 0.5 * (residual / model.psi - expected.observed()) / model.psi
    noise = np.array([by_psi.sum()]) if layout.isotropic else by_psi
    return np.concatenate([by_w[:, :-1].ravel(), by_w[:, -1], noise])


def jacobian(
    readings: Callable[[LinearGaussian], Array], model: LinearGaussian, layout: Layout
) -> Array:
    """Derivatives of the readings by theta, (readings, size)."""
    return _derivatives(lambda theta: readings(layout.unpack(theta)), model, layout)


def _derivatives(f: Callable[[Array], Array], model: LinearGaussian, layout: Layout) -> Array:
    """Of f by theta at the model, (values of f, size), by central differences."""
    theta = layout.pack(model)
    columns = []
    for a, h in enumerate(STEP * layout.sizes(model)):
        up, down = theta.copy(), theta.copy()
        up[a] += h
        down[a] -= h
        columns.append((f(up) - f(down)) / (up[a] - down[a]))
    return np.stack(columns, axis=1)


def _delta_method(J: Array, information: Array, rotations: Array) -> Array:
    """Square roots of the diagonal of J (I + G G^T)^-1 J^T, in units that make I's diagonal 1."""
    diagonal = np.diag(information)
    if np.any(diagonal <= 0.0):
        raise ValueError(_UNIDENTIFIED)
    unit = 1.0 / np.sqrt(diagonal)
    G = np.linalg.qr(rotations / unit[:, None])[0]
    try:
        L = np.linalg.cholesky(unit[:, None] * information * unit + G @ G.T)
    except np.linalg.LinAlgError:
        raise ValueError(_UNIDENTIFIED) from None
    if float(np.min(np.diag(L))) ** 2 < SINGULAR:
        raise ValueError(_UNIDENTIFIED)
    half = scipy.linalg.solve_triangular(L, (J * unit).T, lower=True)
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", half, half)))


_UNIDENTIFIED = (
    "the information matrix is singular: the observed values do not determine all parameters, or "
    "the fit has not reached its maximum. Fit fewer components or lower tol; "
    'method="bootstrap" shows how far the values move'
)


def _prepare(block: Block, shift: Array, q: int) -> ObservedRows:
    return prepare_rows(block.values, block.weight, shift, None, q, observed=block.observed)


def noise_bias(W: Array, psi: Array, rows_observed: Array) -> Array:
    """Relative bias (d,) of the maximum-likelihood noise, to order 1 / n, as a log-bias.

    -1 / n (1 + sum_k (1 + 1 / gamma_k)), gamma the eigenvalues of W^T Psi^-1 W. For PPCA this is
    Lawley (1956) summed over the discarded eigenvalues, -1 / n (1 + sum_k lam_k / (lam_k -
    sigma2)); it tends to -(q + 1) / n, the degrees of freedom of a regression on q factors.
    """
    gamma = np.linalg.eigvalsh(W.T @ (W / psi[:, None]))
    lost = 1.0 + float(np.sum(1.0 + 1.0 / np.maximum(gamma, 0.1)))
    return np.asarray(-np.log1p(lost / np.maximum(rows_observed, 1.0)))
