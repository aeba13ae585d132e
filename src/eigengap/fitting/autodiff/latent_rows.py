"""Latents of new rows under a fitted Bayesian GPLVM: q(z) = N(mu, diag(s)) of each row by itself.

With q(u) of the inducing outputs held as the fit left it, the bound of one row is

    sum over observed j of -1/2 ln 2 pi sigma2
        - (x_j^2 - 2 x_j psi1'w_j + <Psi2, w_j w_j' - B_j> + psi0) / 2 sigma2
    - KL(q(z) | N(0, I))

(w_j and B_j as in `models.gp.gaussian_process`). The fit's own latents are where it has no slope:
its collapsed bound is this one with the best q(u), so that both have the same derivatives there. A
row of the fit therefore comes back where the fit left it, as far as the fit has converged.

Each row is climbed by Newton steps in (mu, ln s), with the moduli of the Hessian's eigenvalues, so
that they lead uphill everywhere, and a damping that grows where a step would not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.autodiff import double_precision
from eigengap.fitting.autodiff.bayesian_bound import divergence
from eigengap.fitting.autodiff.gp_kernels import Form, logs_of
from eigengap.fitting.autodiff.psi_statistics import (
    PairTerm,
    features,
    of_itself,
    of_one,
    pair_terms,
    weighted_smooth_products,
)
from eigengap.fitting.gp.latent_points import Descent
from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import GaussianProcesses

SIZES = (16, 256)  # rows that are worked on at a time: of few sizes, for each is compiled
MOST_STEPS = 100
FIRST_STEPS = 8  # of all starts, before the best of them goes on alone
STEP = 1e-6  # size of a step at which a row is done
ROUNDING = 1e-10  # relative to a bound's size


class UncertainLatents(NamedTuple):
    """q(z) of each row and its bound on ln p(x)."""

    mu: Array  # (n, q)
    s: Array  # (n, q)
    bound: Array  # (n,) in the units of the processes


def most_probable(model: GaussianProcesses, Y: Array, mu: Array, s: Array) -> UncertainLatents:
    """Of standardised rows Y (n, d), from starts mu and s (n, k, q), of which the best is kept."""
    n, k, q = mu.shape
    theta = np.concatenate([mu, np.log(s)], axis=2).reshape(n * k, 2 * q)
    with double_precision():
        rows = _Rows.of(model, np.repeat(Y, k, axis=0))
        climb = Descent(rows.look, _newton_step, theta, STEP, ROUNDING)
        climb.steps(FIRST_STEPS if k > 1 else MOST_STEPS)
        best = np.arange(n) * k + np.argmin(climb.value.reshape(n, k), axis=1)
        climb.going[np.setdiff1d(np.arange(n * k), best)] = False
        climb.steps(MOST_STEPS)
    found = climb.x[best]
    return UncertainLatents(found[:, :q], np.exp(found[:, q:]), -climb.value[best])


@dataclass(frozen=True, eq=False)
class _Rows:
    """What the bound of a row needs of it."""

    model: GaussianProcesses
    pull: Array  # (n, M) sum over observed j of x_j w_j
    squares: Array  # (n,) sum over observed j of x_j^2
    count: Array  # (n,) observed values
    observed: NDArray[np.bool_]  # (r, d) distinct patterns of observed values
    pattern: NDArray[np.intp]  # (n,) index into these

    @classmethod
    def of(cls, model: GaussianProcesses, Y: Array) -> _Rows:
        observed = ~np.isnan(Y)
        x = np.where(observed, Y, 0.0)
        patterns, pattern = np.unique(observed, axis=0, return_inverse=True)
        count = np.sum(observed, axis=1).astype(np.float64)
        pull, squares = x @ model.weights.T, np.sum(x * x, axis=1)
        return cls(model, pull, squares, count, patterns, pattern.reshape(-1))

    def look(self, at: NDArray[np.intp], theta: Array) -> tuple[Array, Array, Array]:
        """Value (c,), slope (c, 2 q) and Hessian (c, 2 q, 2 q) of the negative bounds of rows."""
        chunks = [slice(k, k + SIZES[-1]) for k in range(0, len(at), SIZES[-1])]
        parts = [self._look(at[chunk], theta[chunk]) for chunk in chunks]
        value, slope, bend = (np.concatenate(part) for part in zip(*parts, strict=True))
        return value, slope, bend

    def _look(self, at: NDArray[np.intp], theta: Array) -> list[Array]:
        """The same of at most the largest of SIZES, padded to one of them by the first row."""
        model, c = self.model, len(at)
        size = next(size for size in SIZES if size >= c)
        padded = np.concatenate([np.arange(c), np.zeros(size - c, dtype=np.intp)])
        rows = at[padded]
        kinds, pattern = np.unique(self.pattern[rows], return_inverse=True)
        products = np.zeros((size, *model.reductions.shape[1:]))
        for k, kind in enumerate(kinds):
            products[k] = self._products(self.observed[kind])
        found = _look(
            Form.of(model.kernel),
            logs_of(model.kernel, model.q),
            model.noise_variance,
            model.support,
            products,
            theta[padded],
            self.pull[rows],
            self.squares[rows],
            self.count[rows],
            pattern.reshape(-1),
        )
        return [np.asarray(part)[:c] for part in found]

    def _products(self, observed: NDArray[np.bool_]) -> Array:
        """sum over observed j of w_j w_j' - B_j: (M, M)."""
        model = self.model
        w = model.weights[:, observed]
        counts = np.bincount(model.pattern[observed], minlength=len(model.reductions))
        return np.asarray(w @ w.T - np.tensordot(counts.astype(np.float64), model.reductions, 1))


@partial(jax.jit, static_argnums=0)
def _look(
    form: Form,
    logs: dict[str, jax.Array],
    sigma2: float,
    U: jax.Array,
    products: jax.Array,
    theta: jax.Array,
    pull: jax.Array,
    squares: jax.Array,
    count: jax.Array,
    pattern: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Value, slope and Hessian of all rows.

    All but the sums over pairs of inducing points is cheap, and JAX derives it row by row. These
    sums are functions of few features of a row, whose derivatives are products of matrices.
    """
    q = U.shape[1]

    def cheap(
        theta: jax.Array, pull: jax.Array, squares: jax.Array, count: jax.Array, kind: jax.Array
    ) -> jax.Array:
        mu, s = theta[:q], jnp.exp(theta[q:])
        at, variance = mu[None, :], s[None, :]
        left = squares - 2.0 * of_one(form, logs, at, variance, U)[0] @ pull
        left += weighted_smooth_products(form, logs, mu, s, U, products[kind])
        left += count * of_itself(form, logs, at, variance)[0]
        constant = 0.5 * count * jnp.log(2.0 * jnp.pi * sigma2)
        return constant + 0.5 * left / sigma2 + divergence(mu, s)

    value, slope, bend = _derived(cheap)(theta, pull, squares, count, pattern)
    for term in pair_terms(form, logs, U, products):
        parts = _of_term(logs, term, theta, pattern)
        value += 0.5 * parts[0] / sigma2
        slope += 0.5 * parts[1] / sigma2
        bend += 0.5 * parts[2] / sigma2
    return value, slope, bend


def _derived(function: Callable[..., jax.Array]) -> Callable[..., tuple[jax.Array, ...]]:
    """Value, slope and Hessian in the first argument, for every row of the arguments."""

    def slope(*row: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        value, slope = jax.value_and_grad(function)(*row)
        return slope, (value, slope)

    def all_three(*rows: jax.Array) -> tuple[jax.Array, ...]:
        bend, (value, slopes) = jax.vmap(jax.jacfwd(slope, has_aux=True))(*rows)
        return value, slopes, bend

    return all_three


def _of_term(
    logs: dict[str, jax.Array], term: PairTerm, theta: jax.Array, pattern: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """sum_c weights_c exp(pairs_c'rho(theta)) of every row, its slope and its Hessian."""
    q = theta.shape[1] // 2

    def rho(at: jax.Array) -> jax.Array:
        return features(logs, term.i, term.j, at[:q], jnp.exp(at[q:]))

    R, J = jax.vmap(rho)(theta), jax.vmap(jax.jacfwd(rho))(theta)  # (n, f), (n, f, 2 q)
    E = term.weights[pattern] * jnp.exp(R @ term.pairs)  # (n, c)
    f = term.pairs.shape[0]
    outer = (term.pairs[:, None, :] * term.pairs[None, :, :]).reshape(f * f, -1)
    G, H = E @ term.pairs.T, (E @ outer.T).reshape(-1, f, f)  # derivatives in rho
    curved = jax.vmap(jax.hessian(lambda at, weight: weight @ rho(at)))(theta, G)
    slope = jnp.einsum("nf,nfk->nk", G, J)
    bend = jnp.einsum("nfk,nfg,ngl->nkl", J, H, J) + curved
    return jnp.sum(E, axis=1), slope, bend


def _newton_step(slope: Array, bend: Array, damping: Array) -> Array:
    """Damped Newton steps (c, 2 q) that lead downhill."""
    lam, V = np.linalg.eigh(bend)
    size = np.abs(lam)
    size += damping[:, None] * np.max(size, axis=1, initial=1e-12)[:, None]
    turned = np.einsum("nki,nk->ni", V, slope)
    step = np.einsum("nki,ni->nk", V, turned / size)
    return np.asarray(np.clip(step, -2.0, 2.0))  # ln s by more is no longer near
