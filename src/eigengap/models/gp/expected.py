"""Expected values of a latent kernel at points that are not known exactly.

For z ~ N(mu, diag(s)), with a row of mu and s for each point, the psi statistics of Titsias and
Lawrence (2010): E k(z, z), E k(z, u_m) and E k(z, u_m) k(z, u_m'). They have closed forms for RBF
and linear kernels and their sums. Written pair of inducing points by pair, for predictions of few
rows at a time; the fit has its own, arranged as matrix products.
"""

from __future__ import annotations

import numpy as np

from eigengap.linalg import Array
from eigengap.models.gp.kernels import RBF, LatentKernel, Linear


def has_expectations(kernel: LatentKernel) -> bool:
    """Whether the expected values have a closed form."""
    return all(isinstance(part, RBF | Linear) for part in kernel.parts)


def expected_diagonal(kernel: LatentKernel, mu: Array, s: Array) -> Array:
    """E k(z, z): (n,)."""
    return np.asarray(sum(_diagonal(part, mu, s) for part in kernel.parts))


def expected_matrix(kernel: LatentKernel, mu: Array, s: Array, U: Array) -> Array:
    """E k(z, u_m): (n, M)."""
    return np.asarray(sum(_single(part, mu, s, U) for part in kernel.parts))


def expected_products(kernel: LatentKernel, mu: Array, s: Array, U: Array) -> Array:
    """E k(z, u_m) k(z, u_m'): (n, M, M)."""
    total = np.zeros((len(mu), len(U), len(U)))
    for i, first in enumerate(kernel.parts):
        total += _product(first, first, mu, s, U)
        for second in kernel.parts[:i]:
            crossed = _product(first, second, mu, s, U)
            total += crossed + crossed.swapaxes(1, 2)
    return total


def _diagonal(part: LatentKernel, mu: Array, s: Array) -> Array:
    if isinstance(part, Linear):
        return np.asarray((mu * mu + s) @ part.variances_of(mu.shape[1]))
    return part.diagonal(mu)


def _single(part: LatentKernel, mu: Array, s: Array, U: Array) -> Array:
    """(n, M) for one part of a sum."""
    if isinstance(part, Linear):
        return part.matrix(mu, U)
    assert isinstance(part, RBF)
    l2 = part.lengths_of(mu.shape[1]) ** 2
    exponent = 0.5 * np.sum(np.log1p(s / l2), axis=1)[:, None]
    for k in range(mu.shape[1]):
        exponent = exponent + (mu[:, k, None] - U[:, k]) ** 2 / (2.0 * (l2[k] + s[:, k, None]))
    return np.asarray(part._variance * np.exp(-exponent))


def _product(first: LatentKernel, second: LatentKernel, mu: Array, s: Array, U: Array) -> Array:
    """E k_1(z, u_m) k_2(z, u_m'): (n, M, M)."""
    if isinstance(first, Linear) and isinstance(second, Linear):
        return _of_linear(first, second, mu, s, U)
    if isinstance(first, Linear):
        return _product(second, first, mu, s, U).swapaxes(1, 2)
    assert isinstance(first, RBF)
    if isinstance(second, Linear):
        return _of_rbf_and_linear(first, second, mu, s, U)
    assert isinstance(second, RBF)
    return _of_rbfs(first, second, mu, s, U)


def _of_linear(first: Linear, second: Linear, mu: Array, s: Array, U: Array) -> Array:
    q = mu.shape[1]
    V, W = U * first.variances_of(q), U * second.variances_of(q)
    means = (mu @ V.T)[:, :, None] * (mu @ W.T)[:, None, :]
    return np.asarray(means + np.einsum("mk,nk,lk->nml", V, s, W, optimize=True))


def _of_rbf_and_linear(rbf: RBF, linear: Linear, mu: Array, s: Array, U: Array) -> Array:
    """k_rbf times N(mu, s) is a Gaussian about (mu l^2 + u s) / (l^2 + s)."""
    q = mu.shape[1]
    l2, V = rbf.lengths_of(q) ** 2, U * linear.variances_of(q)
    pulled = (mu * l2 / (l2 + s))[:, None, :] + (s / (l2 + s))[:, None, :] * U  # (n, M, q)
    return np.asarray(_single(rbf, mu, s, U)[:, :, None] * (pulled @ V.T))


def _of_rbfs(first: RBF, second: RBF, mu: Array, s: Array, U: Array) -> Array:
    q = mu.shape[1]
    l2, m2 = first.lengths_of(q) ** 2, second.lengths_of(q) ** 2
    both = l2 + m2
    b = l2 * m2 / both
    exponent = 0.5 * np.sum(np.log1p(s / b), axis=1)[:, None, None]
    for k in range(q):
        u, v = U[:, k, None], U[:, k]
        apart = (u - v) ** 2 / (2.0 * both[k])
        middle = (u * m2[k] + v * l2[k]) / both[k]
        off = (mu[:, k, None, None] - middle) ** 2 / (2.0 * (b[k] + s[:, k, None, None]))
        exponent = exponent + apart + off
    return np.asarray(first._variance * second._variance * np.exp(-exponent))
