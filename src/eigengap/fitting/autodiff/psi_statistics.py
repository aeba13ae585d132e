"""Expected kernels of uncertain points: the psi statistics of Titsias and Lawrence (2010).

For z_n ~ N(mu_n, diag(s_n)), n = 1..N, and inducing points u_1..u_M

    psi0_n         = E k(z_n, z_n)
    Psi1[n, m]     = E k(z_n, u_m)
    Psi2_n[m, m']  = E k(z_n, u_m) k(z_n, u_m')

in closed form for RBF and linear kernels and their sums. For two RBF kernels with length scales l
and l' the product of k(z, u) and k'(z, u') is again a Gaussian in z,

    exp(-(u - u')^2 / 2 (l^2 + l'^2)) exp(-(z - c)^2 / 2 b),
    b = l^2 l'^2 / (l^2 + l'^2),   c = (u l'^2 + u' l^2) / (l^2 + l'^2)

for each coordinate, whose expectation is (1 + s / b)^-1/2 exp(-(mu - c)^2 / 2 (b + s)). The
exponents of all rows and pairs of inducing points are one product of a matrix (N, 2 q + 1) of rows
and one (2 q + 1, pairs) of pairs; the sum over rows is another. Rows are taken in chunks, whose
exponentials are formed again for the gradient, so that N x M^2 numbers are never held.

Of the product of an RBF kernel and a linear one the expectation is Psi1 times the linear kernel at
the mean of z under N(mu, s) times the RBF: (mu l^2 + u s) / (l^2 + s).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eigengap.fitting.autodiff.gp_kernels import Form, Logs

CHUNK = 1 << 18  # exponentials that are held at a time


class Sums(NamedTuple):
    """What the bound needs of the rows, for each of P groups of them."""

    psi0: jax.Array  # (P,) sums over the rows of each group
    psi1: jax.Array  # (N, M) of every row
    psi2: jax.Array  # (P, M, M) sums over the rows of each group


def sums(
    form: Form, logs: Logs, mu: jax.Array, s: jax.Array, U: jax.Array, groups: jax.Array
) -> Sums:
    """The statistics of rows with means mu and variances s (N, q), groups (P, N) of 0 and 1."""
    psi1 = of_one(form, logs, mu, s, U)
    psi2 = jnp.zeros((groups.shape[0], U.shape[0], U.shape[0]))
    a = len(form.stationary)
    for i in range(a):
        psi2 += _pair_sums(logs, i, i, mu, s, U, groups)
        for j in range(i):
            crossed = _pair_sums(logs, i, j, mu, s, U, groups)
            psi2 += crossed + crossed.swapaxes(1, 2)
    if form.linear:
        psi2 += _linear_sums(logs, mu, s, U, groups)
        for i in range(a):
            crossed = _crossed_sums(logs, i, mu, s, U, groups)
            psi2 += crossed + crossed.swapaxes(1, 2)
    return Sums(groups @ of_itself(form, logs, mu, s), psi1, psi2)


def of_itself(form: Form, logs: Logs, mu: jax.Array, s: jax.Array) -> jax.Array:
    """psi0 of every row: (N,)."""
    psi0 = jnp.zeros(mu.shape[0])
    if form.stationary:
        psi0 += jnp.sum(jnp.exp(logs["variances"]))
    if form.linear:
        psi0 += (mu * mu + s) @ jnp.exp(logs["slopes"])
    return psi0


def of_one(form: Form, logs: Logs, mu: jax.Array, s: jax.Array, U: jax.Array) -> jax.Array:
    """Psi1: (N, M)."""
    psi1 = jnp.zeros((mu.shape[0], U.shape[0]))
    for i in range(len(form.stationary)):
        psi1 += _of_rbf(logs, i, mu, s, U)
    if form.linear:
        psi1 += (mu * jnp.exp(logs["slopes"])) @ U.T
    return psi1


def weighted_smooth_products(
    form: Form, logs: Logs, mu: jax.Array, s: jax.Array, U: jax.Array, W: jax.Array
) -> jax.Array:
    """sum of W * Psi2 of one row, mu and s (q,), for symmetric W (M, M): the parts of Psi2 in
    which the linear kernel is, which are sums over M points; `pair_terms` has those over pairs."""
    total = jnp.zeros(())
    if form.linear:
        at, variance, one = mu[None, :], s[None, :], jnp.ones((1, 1))
        total += jnp.sum(W * _linear_sums(logs, at, variance, U, one)[0])
        for i in range(len(form.stationary)):
            total += 2.0 * jnp.sum(W * _crossed_sums(logs, i, at, variance, U, one)[0])
    return total


class PairTerm(NamedTuple):
    """E k_i(z, u_m) k_j(z, u_m'), summed over pairs with weights, as a function of features of z.

    The sum is weights @ exp(pairs' rho), rho the features of a row.
    """

    i: int
    j: int
    pairs: jax.Array  # (f, c)
    weights: jax.Array  # (r, c) of each of the given matrices


def pair_terms(form: Form, logs: Logs, U: jax.Array, W: jax.Array) -> list[PairTerm]:
    """What makes up the rest of the sum of W * Psi2, for symmetric matrices W (r, M, M)."""
    terms = []
    for i in range(len(form.stationary)):
        for j in range(i + 1):
            first, second, _ = _pairs(U.shape[0], i == j)
            twice = np.where((first == second) & (i == j), 1.0, 2.0)
            pairs = _of_pairs(logs, i, j, U[first], U[second])
            terms.append(PairTerm(i, j, pairs, W[:, first, second] * twice))
    return terms


def features(logs: Logs, i: int, j: int, mu: jax.Array, s: jax.Array) -> jax.Array:
    """rho (f,) of one row, mu and s (q,)."""
    return _of_rows(logs, i, j, mu[None, :], s[None, :])[0]


# RBF ----------------------------------------------------------------------------------------


def _of_rbf(logs: Logs, i: int, mu: jax.Array, s: jax.Array, U: jax.Array) -> jax.Array:
    """Psi1 of one RBF kernel, its exponents one product."""
    l2 = jnp.exp(2.0 * logs["lengths"][i])
    w = 0.5 / (l2 + s)  # (N, q)
    alone = logs["variances"][i] - jnp.sum(w * mu * mu + 0.5 * jnp.log1p(s / l2), axis=1)
    rows = jnp.concatenate([2.0 * w * mu, -w, alone[:, None]], axis=1)
    points = jnp.concatenate([U, U * U, jnp.ones((U.shape[0], 1))], axis=1)
    return jnp.exp(rows @ points.T)


def _of_rows(logs: Logs, i: int, j: int, mu: jax.Array, s: jax.Array) -> jax.Array:
    """(N, 2 q + 2): with `_of_pairs`, the logarithm of E k_i(z_n, first) k_j(z_n, second)."""
    l2, m2 = jnp.exp(2.0 * logs["lengths"][i]), jnp.exp(2.0 * logs["lengths"][j])
    b = l2 * m2 / (l2 + m2)
    w = 0.5 / (b + s)
    alone = -jnp.sum(w * mu * mu + 0.5 * jnp.log1p(s / b), axis=1)
    alone += logs["variances"][i] + logs["variances"][j]
    return jnp.concatenate([2.0 * w * mu, -w, alone[:, None], jnp.ones_like(alone)[:, None]], 1)


def _of_pairs(logs: Logs, i: int, j: int, first: jax.Array, second: jax.Array) -> jax.Array:
    """(2 q + 2, pairs), of inducing points first and second (pairs, q)."""
    l2, m2 = jnp.exp(2.0 * logs["lengths"][i]), jnp.exp(2.0 * logs["lengths"][j])
    both = l2 + m2
    c = (first * m2 + second * l2) / both
    apart = -0.5 * jnp.sum((first - second) ** 2 / both, axis=1)
    return jnp.concatenate([c, c * c, jnp.ones_like(apart)[:, None], apart[:, None]], axis=1).T


def _pair_sums(
    logs: Logs, i: int, j: int, mu: jax.Array, s: jax.Array, U: jax.Array, groups: jax.Array
) -> jax.Array:
    """Sums over each group of E k_i(z_n, u_m) k_j(z_n, u_m'): (P, M, M); half of them if i = j."""
    first, second, at = _pairs(U.shape[0], i == j)
    rows, pairs = _of_rows(logs, i, j, mu, s), _of_pairs(logs, i, j, U[first], U[second])
    return summed_exponentials(rows, pairs, groups)[:, at]


def _pairs(M: int, half: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and second of M points in each pair, and where each pair is (M, M); all, or half."""
    first, second = np.tril_indices(M) if half else np.indices((M, M)).reshape(2, -1)
    at = np.empty((M, M), dtype=np.intp)
    at[second, first] = at[first, second] = np.arange(len(first))
    return first, second, at


@jax.custom_vjp
def summed_exponentials(rows: jax.Array, pairs: jax.Array, groups: jax.Array) -> jax.Array:
    """groups (P, N) times exp(rows (N, r) times pairs (r, c)), chunk by chunk of rows: (P, c)."""

    def add(total: jax.Array, chunk: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        some, of_groups = chunk
        return total + of_groups.T @ jnp.exp(some @ pairs), None

    start = jnp.zeros((groups.shape[0], pairs.shape[1]))
    return jax.lax.scan(add, start, _chunks(rows, pairs, groups))[0]


def _forward(
    rows: jax.Array, pairs: jax.Array, groups: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    return summed_exponentials(rows, pairs, groups), (rows, pairs, groups)


def _backward(
    kept: tuple[jax.Array, jax.Array, jax.Array], slope: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    rows, pairs, groups = kept

    def add(total: jax.Array, chunk: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        some, of_groups = chunk
        weighted = jnp.exp(some @ pairs) * (of_groups @ slope)
        return total + some.T @ weighted, weighted @ pairs.T

    of_pairs, of_rows = jax.lax.scan(add, jnp.zeros_like(pairs), _chunks(rows, pairs, groups))
    of_rows = of_rows.reshape(-1, rows.shape[1])[: rows.shape[0]]
    return of_rows, of_pairs, jnp.zeros_like(groups)  # groups are given, not learned


summed_exponentials.defvjp(_forward, _backward)


def _chunks(rows: jax.Array, pairs: jax.Array, groups: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rows (k, size, r) and their groups (k, size, P), padded by rows that are in no group."""
    n, size = rows.shape[0], max(1, min(rows.shape[0], CHUNK // pairs.shape[1]))
    count = -(-n // size)
    size = -(-n // count)
    lacking = count * size - n
    return (
        jnp.pad(rows, ((0, lacking), (0, 0))).reshape(count, size, -1),
        jnp.pad(groups.T, ((0, lacking), (0, 0))).reshape(count, size, -1),
    )


# Linear, and its products with RBF ----------------------------------------------------------


def _linear_sums(
    logs: Logs, mu: jax.Array, s: jax.Array, U: jax.Array, groups: jax.Array
) -> jax.Array:
    """sum_n U A (mu_n mu_n' + diag(s_n)) A U': (P, M, M)."""
    q = mu.shape[1]
    outer = (mu[:, :, None] * mu[:, None, :]).reshape(-1, q * q)
    second = (groups @ outer).reshape(-1, q, q) + (groups @ s)[:, :, None] * jnp.eye(q)
    V = U * jnp.exp(logs["slopes"])
    return V @ second @ V.T


def _crossed_sums(
    logs: Logs, i: int, mu: jax.Array, s: jax.Array, U: jax.Array, groups: jax.Array
) -> jax.Array:
    """sum_n E k_rbf(z_n, u_m) k_linear(z_n, u_m'): (P, M, M)."""
    l2 = jnp.exp(2.0 * logs["lengths"][i])
    psi1 = _of_rbf(logs, i, mu, s, U)
    pulled = jnp.concatenate([mu * l2 / (l2 + s), s / (l2 + s)], axis=1)  # (N, 2 q)
    P, (n, q) = groups.shape[0], mu.shape
    weights = (groups.T[:, :, None] * pulled[:, None, :]).reshape(n, -1)
    weighted = jnp.moveaxis((psi1.T @ weights).reshape(-1, P, 2 * q), 0, 1)  # (P, M, 2 q)
    means = weighted[:, :, :q] + weighted[:, :, q:] * U
    return means @ (U * jnp.exp(logs["slopes"])).T
