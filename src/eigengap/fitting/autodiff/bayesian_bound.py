"""The collapsed bound of the Bayesian GPLVM (Titsias and Lawrence 2010, Eq. 14).

The columns of a table share inducing points U and a kernel; the rows have latents
q(z_n) = N(mu_n, diag(s_n)) against the prior N(0, I). With beta = 1 / sigma2 and the psi statistics

    F = sum over columns j of
          -n_j/2 ln(2 pi sigma2) - 1/2 ln |A| + 1/2 ln |Kmm| + beta/2 (tr Kmm^-1 Psi2 - psi0)
          - beta/2 y_j'y_j + beta^2/2 v_j' A^-1 v_j
        - sum_n KL(q(z_n) | N(0, I)),            A = Kmm + beta Psi2,   v_j = Psi1'y_j

where the sums psi0, v_j and Psi2 run over the n_j rows in which column j was observed. The gradient
with respect to the M x M matrices is written out, for it needs nothing but the inverses that the
value has already formed; JAX derives what lies below them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from eigengap.fitting.autodiff.gp_kernels import Form, Logs, matrix
from eigengap.fitting.autodiff.psi_statistics import sums
from eigengap.fitting.gp.start import FLOOR
from eigengap.models.gp.gaussian_process import JITTER


class Table(NamedTuple):
    """The arrays of `fitting.gp.start.ObservedColumns` that a bound needs."""

    Y: jax.Array  # (n, c + 1)
    groups: jax.Array  # (P, n)
    members: jax.Array  # (P, k)
    counts: jax.Array  # (P,)


def noise_of(logs: Logs) -> jax.Array:
    """sigma2, which does not fall below its floor."""
    return FLOOR + jnp.exp(logs["noise"])


def bound(
    form: Form, logs: Logs, mu: jax.Array, s: jax.Array, U: jax.Array, table: Table
) -> jax.Array:
    """F without the divergence of the latents from their prior."""
    beta = 1.0 / noise_of(logs)
    psi = sums(form, logs, mu, s, U, table.groups)
    products = psi.psi1.T @ table.Y  # (M, c + 1)
    V = jnp.moveaxis(products[:, table.members], 0, 1)  # (P, M, k)
    Kmm, M = matrix(form, logs, U, U), U.shape[0]
    Kmm += JITTER * jnp.trace(Kmm) / M * jnp.eye(M)  # which keeps it positive
    observed = jnp.sum(table.groups, axis=1)
    of_groups = -observed * jnp.log(2.0 * jnp.pi / beta) - beta * psi.psi0
    squares = jnp.sum(table.Y * table.Y)
    fitted = explained(Kmm, psi.psi2, V, beta, table.counts)
    return 0.5 * (table.counts @ of_groups - beta * squares) + fitted


def divergence(mu: jax.Array, s: jax.Array) -> jax.Array:
    """KL(N(mu_n, diag(s_n)) | N(0, I)), summed over rows."""
    return 0.5 * jnp.sum(mu * mu + s - 1.0 - jnp.log(s))


@jax.custom_vjp
def explained(
    Kmm: jax.Array, psi2: jax.Array, V: jax.Array, beta: jax.Array, counts: jax.Array
) -> jax.Array:
    """sum_p count_p/2 (ln |Kmm| - ln |A_p| + beta tr Kmm^-1 Psi2_p) + beta^2/2 tr V_p'A_p^-1 V_p.

    Shapes: Kmm (M, M), psi2 (P, M, M), V (P, M, k), counts (P,).
    """
    return _explained(Kmm, psi2, V, beta, counts)[0]


def _explained(
    Kmm: jax.Array, psi2: jax.Array, V: jax.Array, beta: jax.Array, counts: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """With Kmm = L L' and T = L^-1 Psi2 L^-T: A = L (I + beta T) L'.

    Kmm is nearly singular for smooth kernels: values come from the triangular factors, which lose
    half as many digits as its inverse.
    """
    eye = jnp.eye(Kmm.shape[0])
    R = _solved(jnp.linalg.cholesky(Kmm), eye)  # L^-1
    T = R @ psi2 @ R.T
    LB = jnp.linalg.cholesky(eye + beta * T)
    c = _solved(LB, R @ V)
    H = _solved(LB, jnp.broadcast_to(R, LB.shape))  # H'H = A^-1
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(LB, axis1=1, axis2=2)), axis=1)
    trace = jnp.trace(T, axis1=1, axis2=2)
    value = 0.5 * (counts @ (beta * trace - log_det) + beta**2 * jnp.sum(c * c))
    return value, (R, H, c, trace, psi2, beta, counts)


def _solved(L: jax.Array, b: jax.Array) -> jax.Array:
    return jax.lax.linalg.triangular_solve(L, b, left_side=True, lower=True)


def _slopes(
    kept: tuple[jax.Array, ...], slope: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    R, H, solved, trace, psi2, beta, counts = kept
    c = counts[:, None, None]
    of_K, of_A = R.T @ R, H.swapaxes(1, 2) @ H
    W = H.swapaxes(1, 2) @ solved  # A^-1 V
    # d/dA of the terms in A; Psi2 enters A times beta.
    of_matrix = -0.5 * (c * of_A + beta**2 * (W @ W.swapaxes(1, 2)))
    of_psi2 = beta * of_matrix + 0.5 * beta * c * of_K
    mean = jnp.sum(c * psi2, axis=0)
    of_Kmm = jnp.sum(of_matrix, axis=0) + 0.5 * (
        jnp.sum(counts) * of_K - beta * (of_K @ mean @ of_K)
    )
    of_beta = jnp.sum(of_matrix * psi2) + 0.5 * counts @ trace + beta * jnp.sum(solved**2)
    return (
        slope * of_Kmm,
        slope * of_psi2,
        slope * beta**2 * W,
        slope * of_beta,
        jnp.zeros_like(counts),
    )


explained.defvjp(_explained, _slopes)
