"""The Gaussian process latent variable model, exact and Bayesian.

Exact (Lawrence 2005): every column of the standardised table is a Gaussian process of the latents,

    ln p(Y | Z) = sum_j -n_j/2 ln 2 pi - 1/2 ln |K_j| - 1/2 y_j' K_j^-1 y_j
    K = k(Z, Z) + sigma2 I

with K_j the part of K that belongs to the n_j rows in which column j was observed. It is maximised
over latents, kernel and noise. The prior z ~ N(0, I) has no maximum together with free length
scales: latents and length scales that shrink together leave the likelihood as it is, while the
prior rises. Latents are therefore held to the prior's own mean 0 and mean square 1, coordinate by
coordinate, under which ln p(Z) is a constant; their scale is in the length scales.

Bayesian (Titsias and Lawrence 2010): latents are not points but q(z_n) = N(mu_n, diag(s_n));
inducing points U stand for the rows, so that the cost grows with n M^2. The bound of
`bayesian_bound` is maximised over all of these, kernel and noise.

Both by L-BFGS, all parameters at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eigengap.fitting.autodiff import double_precision
from eigengap.fitting.autodiff.bayesian_bound import Table, bound, divergence, noise_of
from eigengap.fitting.autodiff.gp_kernels import Form, kernel_from, matrix, start_of
from eigengap.fitting.gp.start import FLOOR, NOISE, LatentFit, ObservedColumns, Start
from eigengap.fitting.optimise.lbfgs import Function, Minimum, minimise
from eigengap.fitting.optimise.loop import Progress, Trace, Watch
from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import given_latents, given_uncertain_latents
from eigengap.models.network.autoencoder import Perceptron

Parameters = Mapping[str, Array]  # by name, of any shapes
Both = Callable[[dict[str, Array]], tuple[object, Parameters]]  # -> value, slopes by name

TINY = 1e-12  # variance of a coordinate that is the same for all rows
UNCERTAIN = 0.1  # variance of the latents of a Bayesian fit at the start
MEMORY = 50  # pairs of steps and slopes: latents and kernel pull on each other in many directions
WINDOW = 20  # steps whose gain is looked at
SLOPE = 1e-3  # largest slope of what has converged, in units in which the function bends by about 1


def fit_latents(
    columns: ObservedColumns,
    start: Start,
    inducing: Array | None = None,  # (M, q) of a Bayesian fit
    *,
    tol: float,
    max_iter: int,
    watch: Watch | None = None,
) -> LatentFit:
    """Latents, kernel and noise of highest likelihood, or of highest bound by inducing points."""
    form, back, n, cells = Form.of(start.kernel), start.back, len(start.Z), columns.cells
    kind = None if back is None else back.kind
    parameters = start_of(start.kernel, start.shares)
    parameters["noise"] = np.log(NOISE - FLOOR)
    # By n itself an exact fit's kernel would settle before the latents have moved, in a worse
    # optimum.
    weights = dict.fromkeys(parameters, n**0.5 if inducing is None else float(n))
    if inducing is not None:
        parameters["U"], weights["U"] = inducing, max(n / len(inducing), 1.0)
        parameters["s"] = np.full(start.shared.shape, np.log(UNCERTAIN))
    parameters.update({"Z": start.shared} if back is None else back.start)
    with double_precision():
        features = jnp.asarray(start.of_row if back is None else back.features)
        of_row, table = jnp.asarray(start.of_row), table_of(columns)
        found, minimum = minimise_named(
            partial(
                _value_and_slopes, form, kind, cells, table=table, features=features, of_row=of_row
            ),
            parameters, weights, tol=tol, max_iter=max_iter, watch=watch,
        )  # fmt: skip
        raw = latents(kind, {k: jnp.asarray(v) for k, v in found.items()}, features)
        as_found = raw, np.zeros(raw.shape[1]), np.ones(raw.shape[1])
        end = to_unit_variance(raw) if inducing is None else as_found
        Z, shift, stretch = map(np.asarray, end)
    noise, kernel = FLOOR + float(np.exp(found["noise"])), kernel_from(form, found)
    observed = columns.table, columns.groups, columns.of_column
    if inducing is None:
        s, model = None, given_latents(kernel, noise, Z, *observed)
    else:
        s = np.exp(found["s"])[start.of_row]
        model = given_uncertain_latents(kernel, noise, found["U"], Z, s, *observed)
    trace = minimum.trace
    return LatentFit(
        model,
        Z,
        s,
        -cells * minimum.value,
        Trace(-cells * trace.objective, trace.change, trace.seconds),
        minimum.converged,
        noise < 2.0 * FLOOR,
        None if back is None else back.map(found, shift, stretch),
    )


def table_of(columns: ObservedColumns) -> Table:
    return Table(*map(jnp.asarray, (columns.Y, columns.groups, columns.members, columns.counts)))


@partial(jax.jit, static_argnums=(0, 1))
def _value_and_slopes(
    form: Form,
    back: str | None,
    cells: float,
    parameters: dict[str, jax.Array],
    *,
    table: Table,
    features: jax.Array,
    of_row: jax.Array | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """-ln p(Y | Z) per observed value, or the negative bound where there are inducing points.

    And the derivatives.
    """

    def objective(p: dict[str, jax.Array]) -> jax.Array:
        Z = latents(back, p, features)
        if "U" not in p:
            return negative_log_likelihood(form, p, to_unit_variance(Z)[0], table) / cells
        s = jnp.exp(p["s"])[of_row]
        return (divergence(Z, s) - bound(form, p, Z, s, p["U"], table)) / cells

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

    Where there is none the features (n,) are the rows of the parameter Z that are the latents.
    """
    if back is None:
        return parameters["Z"][features]
    if back == "kernel":
        return features @ parameters["A"]
    weights: dict[str, Any] = {field.name: parameters[field.name] for field in fields(Perceptron)}
    return jnp.asarray(Perceptron(**weights).forward(features, jnp))


def to_unit_variance(Z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Z with every coordinate of mean 0 and mean square 1; the mean and the root mean square."""
    shift = jnp.mean(Z, axis=0)
    stretch = jnp.sqrt(jnp.mean((Z - shift) ** 2, axis=0) + TINY)
    return (Z - shift) / stretch, shift, stretch


# L-BFGS ----------------------------------------------------------------------------------------


def minimise_named(
    both: Both,
    start: Parameters,
    weights: Mapping[str, float] | None = None,
    *,
    tol: float,
    max_iter: int,
    watch: Watch | None = None,
) -> tuple[dict[str, Array], Minimum]:
    """The parameters that minimise a function, by name, from those of `start`.

    weights by name, 1 where there is none: how much more strongly the function bends along a
    parameter than along the others. A kernel's parameters are moved by all rows, a latent by one;
    in units of the root of the weight it bends alike, which L-BFGS takes for granted at the start.
    """
    units = {name: (weights or {}).get(name, 1.0) ** -0.5 for name in start}
    shapes = {name: np.shape(value) for name, value in start.items()}

    def named(flat: Array) -> dict[str, Array]:
        parts, at = {}, 0
        for name, shape in shapes.items():
            size = int(np.prod(shape, dtype=np.intp))
            parts[name] = units[name] * flat[at : at + size].reshape(shape)
            at += size
        return parts

    def function(flat: Array) -> tuple[float, Array]:
        value, slopes = both(named(flat))
        slope = np.concatenate([units[name] * np.ravel(slopes[name]) for name in shapes])
        return float(np.asarray(value)), slope

    x = np.concatenate(
        [np.ravel(np.asarray(start[name], np.float64)) / units[name] for name in shapes]
    )
    found = _persistent(function, x, tol, max_iter, watch)
    return named(found.x), found


def _persistent(
    function: Function, x: Array, tol: float, max_iter: int, watch: Watch | None
) -> Minimum:
    """L-BFGS until WINDOW steps together gain less than tol and no slope exceeds SLOPE.

    One step alone may gain little and the next ones much: the search turns. It is begun again
    where a line search fails, for rounding had spoilt what it remembered: covariances of smooth
    kernels are nearly singular, and the values are known to fewer digits than elsewhere. Where a
    new beginning leads no further, what is left is rounding.
    """
    values: list[float] = []
    settled = False

    def watched(step: Progress) -> None:
        nonlocal settled
        if watch is not None:
            watch(step)
        values.append(step.objective)
        if len(values) > WINDOW and step.change <= SLOPE:
            settled = values[-1 - WINDOW] - values[-1] <= tol
        if settled:
            raise StopIteration

    def descend(x: Array, steps: int) -> Minimum:
        return minimise(
            function, x, gradient=0.01 * tol, change=0.0, max_iter=steps, memory=MEMORY,
            watch=watched,
        )  # fmt: skip

    found = descend(x, max_iter)
    while not (found.converged or settled or found.n_iter >= max_iter):
        again = descend(found.x, max_iter - found.n_iter)
        gain = found.value - again.value
        found = replace(again, trace=found.trace.then(again.trace))
        if not gain > tol:  # nor where the start is not finite
            flat = float(np.max(np.abs(found.gradient), initial=0.0)) <= SLOPE
            return replace(found, converged=found.n_iter > 0 and flat)
    return replace(found, converged=found.converged or settled)
