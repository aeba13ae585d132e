"""The Bayesian Gaussian process latent variable model (Titsias and Lawrence 2010).

Latents are not points but q(z_n) = N(mu_n, diag(s_n)); inducing points U stand for the rows, so
that the cost grows with n M^2. Everything is found by climbing the bound of `bayesian_bound` by
L-BFGS, all at once.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from eigengap.fitting.autodiff.bayesian_bound import Table, bound, divergence
from eigengap.fitting.autodiff.descent import minimise_named
from eigengap.fitting.autodiff.engine import double_precision
from eigengap.fitting.autodiff.gp_kernels import Form, kernel_from, start_of
from eigengap.fitting.autodiff.gplvm import latents, risen, shared_weights, table_of
from eigengap.fitting.gp.start import FLOOR, LatentFit, ObservedColumns, Start
from eigengap.fitting.optimise.loop import Watch
from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import given_uncertain_latents

UNCERTAIN = 0.1  # variance of the latents at the start


def fit_bayesian(
    columns: ObservedColumns,
    start: Start,
    inducing: Array,  # (M, q)
    *,
    tol: float,
    max_iter: int,
    watch: Watch | None = None,
) -> LatentFit:
    """Latents, inducing points, kernel and noise of highest bound."""
    form = Form.of(start.kernel)
    back = start.back
    kind = None if back is None else back.kind
    parameters = start_of(start.kernel, start.shares)
    parameters["noise"] = np.log(max(start.noise_variance - FLOOR, FLOOR))
    parameters["U"] = inducing
    parameters["s"] = np.full(start.shared.shape, np.log(UNCERTAIN))
    parameters.update({"Z": start.shared} if back is None else back.start)
    cells = columns.cells
    n, M = len(start.Z), len(inducing)
    weights = {**shared_weights(float(n)), "U": max(n / M, 1.0)}
    with double_precision():
        table = table_of(columns)
        of_row = jnp.asarray(start.of_row)
        features = of_row if back is None else jnp.asarray(back.features)
        both = partial(
            _value_and_slopes, form, kind, cells, table=table, features=features, of_row=of_row
        )
        found, minimum = minimise_named(
            both, parameters, weights, tol=tol, max_iter=max_iter, watch=watch
        )
        named = {name: jnp.asarray(value) for name, value in found.items()}
        Z = np.asarray(latents(kind, named, features))
    noise = FLOOR + float(np.exp(found["noise"]))
    s = np.exp(found["s"])[start.of_row]
    model = given_uncertain_latents(
        kernel_from(form, found),
        noise,
        found["U"],
        Z,
        s,
        columns.table,
        columns.groups,
        columns.of_column,
    )
    q = Z.shape[1]
    return LatentFit(
        model,
        Z,
        s,
        -cells * minimum.value,
        risen(minimum.trace, cells),
        minimum.converged,
        noise < 2.0 * FLOOR,
        None if back is None else back.map(found, np.zeros(q), np.ones(q)),
    )


@partial(jax.jit, static_argnums=(0, 1))
def _value_and_slopes(
    form: Form,
    back: str | None,
    cells: float,
    parameters: dict[str, jax.Array],
    *,
    table: Table,
    features: jax.Array,
    of_row: jax.Array,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """-F per observed value, and its derivatives."""

    def objective(p: dict[str, jax.Array]) -> jax.Array:
        mu, s = latents(back, p, features), jnp.exp(p["s"])[of_row]
        return (divergence(mu, s) - bound(form, p, mu, s, p["U"], table)) / cells

    return jax.value_and_grad(objective)(parameters)
