"""The Gaussian process latent variable model, all pairs of rows (Lawrence 2005).

Every column of the standardised table is a Gaussian process of the latents,

    ln p(Y | Z) = sum_j -n_j/2 ln 2 pi - 1/2 ln |K_j| - 1/2 y_j' K_j^-1 y_j
    K = k(Z, Z) + sigma2 I

with K_j the part of K that belongs to the n_j rows in which column j was observed. It is maximised
over latents, kernel and noise. The prior z ~ N(0, I) has no maximum together with free length
scales: latents and length scales that shrink together leave the likelihood as it is, while the
prior rises. Latents are therefore held to the prior's own mean 0 and mean square 1, coordinate by
coordinate, under which ln p(Z) is a constant; their scale is in the length scales.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from eigengap.fitting.autodiff.bayesian_bound import Table, noise_of
from eigengap.fitting.autodiff.descent import minimise_named
from eigengap.fitting.autodiff.engine import double_precision
from eigengap.fitting.autodiff.gp_kernels import Form, kernel_from, matrix, start_of
from eigengap.fitting.gp.start import FLOOR, LatentFit, ObservedColumns, Start
from eigengap.fitting.optimise.loop import Trace, Watch
from eigengap.models.gp.gaussian_process import given_latents

TINY = 1e-12  # variance of a coordinate that is the same for all rows


def fit_exact(
    columns: ObservedColumns,
    start: Start,
    *,
    tol: float,
    max_iter: int,
    watch: Watch | None = None,
) -> LatentFit:
    """Latents, kernel and noise of highest likelihood."""
    form = Form.of(start.kernel)
    back = start.back
    kind = None if back is None else back.kind
    parameters = start_of(start.kernel, start.shares)
    parameters["noise"] = np.log(max(start.noise_variance - FLOOR, FLOOR))
    parameters.update({"Z": start.shared} if back is None else back.start)
    cells = columns.cells
    # By n itself the kernel would settle before the latents have moved, in a worse optimum.
    weights = shared_weights(len(start.Z) ** 0.5)
    with double_precision():
        table = table_of(columns)
        features = jnp.asarray(start.of_row if back is None else back.features)
        both = partial(_value_and_slopes, form, kind, cells, table=table, features=features)
        found, minimum = minimise_named(
            both, parameters, weights, tol=tol, max_iter=max_iter, watch=watch
        )
        raw = latents(kind, {k: jnp.asarray(v) for k, v in found.items()}, features)
        Z, shift, stretch = (np.asarray(part) for part in to_unit_variance(raw))
    noise = FLOOR + float(np.exp(found["noise"]))
    kernel = kernel_from(form, found)
    model = given_latents(kernel, noise, Z, columns.table, columns.groups, columns.of_column)
    return LatentFit(
        model,
        Z,
        None,
        -cells * minimum.value,
        risen(minimum.trace, cells),
        minimum.converged,
        noise < 2.0 * FLOOR,
        None if back is None else back.map(found, shift, stretch),
    )


def table_of(columns: ObservedColumns) -> Table:
    return Table(
        jnp.asarray(columns.Y),
        jnp.asarray(columns.groups),
        jnp.asarray(columns.members),
        jnp.asarray(columns.counts),
    )


def shared_weights(weight: float) -> dict[str, float]:
    """The weight (see `descent`) of every parameter that all rows share."""
    return dict.fromkeys(("noise", "variances", "lengths", "slopes"), weight)


def risen(trace: Trace, cells: float) -> Trace:
    """The trace of what was maximised, from that of its negative per cell."""
    return Trace(-cells * trace.objective, trace.change, trace.seconds)


@partial(jax.jit, static_argnums=(0, 1))
def _value_and_slopes(
    form: Form,
    back: str | None,
    cells: float,
    parameters: dict[str, jax.Array],
    *,
    table: Table,
    features: jax.Array,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """-ln p(Y | Z) per observed value, and its derivatives."""

    def objective(p: dict[str, jax.Array]) -> jax.Array:
        Z = to_unit_variance(latents(back, p, features))[0]
        return negative_log_likelihood(form, p, Z, table) / cells

    return jax.value_and_grad(objective)(parameters)


def negative_log_likelihood(
    form: Form, logs: dict[str, jax.Array], Z: jax.Array, table: Table
) -> jax.Array:
    """-ln p(Y | Z) of all columns."""
    C = matrix(form, logs, Z, Z) + noise_of(logs) * jnp.eye(Z.shape[0])
    Y = jnp.moveaxis(table.Y[:, table.members], 1, 0)  # (P, n, k)
    if len(table.counts) == 1:
        return _negative_log_density(C, table.groups[0], Y[0], table.counts[0])

    def add(
        total: jax.Array, group: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, None]:
        return total + _negative_log_density(C, *group), None

    return jax.lax.scan(add, jnp.zeros(()), (table.groups, Y, table.counts))[0]


@jax.custom_vjp
def _negative_log_density(
    C: jax.Array, observed: jax.Array, Y: jax.Array, count: jax.Array
) -> jax.Array:
    """Of `count` columns with covariance C on the observed rows; Y (n, k) is 0 in the others.

    C (n, n), observed (n,) of 0 and 1. The others get a variance of 1, which adds nothing.
    """
    return _density(C, observed, Y, count)[0]


def _density(
    C: jax.Array, observed: jax.Array, Y: jax.Array, count: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    both = observed[:, None] * observed
    L = jnp.linalg.cholesky(C * both + jnp.diag(1.0 - observed), symmetrize_input=False)
    R = jax.lax.linalg.triangular_solve(L, jnp.eye(len(observed)), left_side=True, lower=True)
    half = R @ Y
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(L)))
    constant = jnp.sum(observed) * jnp.log(2.0 * jnp.pi)
    value = 0.5 * (count * (log_det + constant) + jnp.sum(half * half))
    return value, (R, half, both, count)


def _density_slopes(
    kept: tuple[jax.Array, ...], slope: jax.Array
) -> tuple[jax.Array, None, None, None]:
    """d/dC = (count C^-1 - C^-1 Y Y' C^-1) / 2 on the observed rows."""
    R, half, both, count = kept
    A = R.T @ half
    return 0.5 * slope * both * (count * (R.T @ R) - A @ A.T), None, None, None


_negative_log_density.defvjp(_density, _density_slopes)


# Latents ---------------------------------------------------------------------------------------


def latents(back: str | None, parameters: dict[str, jax.Array], features: jax.Array) -> jax.Array:
    """(n, q): the back constraint's function of the features.

    Where there is none the features (n,) say which row of the parameter Z is the row's latent.
    """
    if back is None:
        return parameters["Z"][features]
    if back == "kernel":
        return features @ parameters["A"]
    hidden = jnp.tanh(features @ parameters["W1"] + parameters["b1"])
    return features @ parameters["W0"] + hidden @ parameters["W2"] + parameters["b2"]


def to_unit_variance(Z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Z with every coordinate of mean 0 and mean square 1; the mean and the root mean square."""
    shift = jnp.mean(Z, axis=0)
    stretch = jnp.sqrt(jnp.mean((Z - shift) ** 2, axis=0) + TINY)
    return (Z - shift) / stretch, shift, stretch
