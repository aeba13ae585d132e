"""Latents of new rows under Gaussian processes at known latents, by Fisher scoring.

For each row by itself the most probable z given what was seen of x,

    -ln p(x | z) - ln p(z) = sum over seen j of 1/2 ln 2 pi v_j(z) + (x_j - m_j(z))^2 / 2 v_j(z)
                             + |z|^2 / 2 + const.

m and v are the predictions of the processes, noise in v. Steps are those of Fisher scoring,

    (I + sum_j m_j' m_j'^T / v_j + sum_j v_j' v_j'^T / 2 v_j^2 + damping)^-1 gradient

which need only slopes, and go downhill always; the damping grows where a step would not. The
inverse of the information at the end is the covariance of the Laplace approximation to p(z | x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array
from eigengap.models.gaussian_process import GaussianProcesses

MOST_STEPS = 200
FIRST_STEPS = 10  # of all starts, before the best of them goes on alone
STEP = 1e-8  # size of a step at which a row is done
APART = 0.5  # distance of two starts, where the prior's standard deviation is 1
MOST_CANDIDATES = 2000  # fitted latents among which starts are sought
FAR = 1e100  # added to the cost of what is near a start already
_PIECE = 1 << 21  # numbers that are held at a time


@dataclass(frozen=True, eq=False)
class LatentPoints:
    """The posterior of each row's latent, as a Gaussian about its mode."""

    Z: Array  # (n, q)
    cov: Array  # (n, q, q)
    log_density: Array  # (n,) ln p(x), by Laplace's approximation, in the units of the processes


def most_probable(model: GaussianProcesses, Y: Array, starts: Array) -> LatentPoints:
    """Of standardised rows Y (n, d) with gaps (NaN), from starts (n, k, q); the best is kept."""
    n, k, q = starts.shape
    found = LatentPoints(np.empty((n, q)), np.empty((n, q, q)), np.empty(n))
    M = len(model.support)
    step = max(1, _PIECE // (k * M * (q + len(model.reductions))))
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        Z, value = _descended(
            model, np.repeat(Y[rows], k, axis=0), starts[rows].reshape(-1, q), FIRST_STEPS
        )
        best = np.argmin(value.reshape(-1, k), axis=1)
        Z = Z.reshape(-1, k, q)[np.arange(len(best)), best]
        Z = _descended(model, Y[rows], Z, MOST_STEPS)[0]
        some = at_given(model, Y[rows], Z)
        found.Z[rows], found.cov[rows] = some.Z, some.cov
        found.log_density[rows] = some.log_density
    return found


def at_given(model: GaussianProcesses, Y: Array, Z: Array) -> LatentPoints:
    """The same about given latents Z (n, q)."""
    at = _Look.at(model, Y, Z)
    # The integral of exp(-value) about Z.
    log_det = np.linalg.slogdet(at.information)[1]
    return LatentPoints(Z, np.asarray(np.linalg.inv(at.information)), -at.value - 0.5 * log_det)


@dataclass(frozen=True, eq=False)
class _Look:
    """Value, slope and information at one point for each row."""

    value: Array  # (n,) without the constant of the prior
    slope: Array  # (n, q)
    information: Array  # (n, q, q)

    @classmethod
    def at(cls, model: GaussianProcesses, Y: Array, Z: Array) -> _Look:
        k = model.kernel.matrix(Z, model.support)
        dk = model.kernel.slopes(Z, model.support)  # (n, M, q)
        own = model.kernel.diagonal(Z)
        own_slope = _slope_of_diagonal(model, Z)
        seen = ~np.isnan(Y)
        off = np.where(seen, np.nan_to_num(Y) - k @ model.weights, 0.0)
        slopes = np.einsum("nmk,mj->njk", dk, model.weights, optimize=True)
        n, q = Z.shape
        value = 0.5 * np.sum(Z * Z, axis=1)
        slope, information = Z.copy(), np.broadcast_to(np.eye(q), (n, q, q)).copy()
        for p, B in enumerate(model.reductions):
            columns = model.pattern == p
            count = np.sum(seen[:, columns], axis=1)
            kB = k @ B
            v = np.maximum(own - np.sum(kB * k, axis=1), 0.0) + model.noise_variance
            dv = own_slope - 2.0 * np.einsum("nm,nmk->nk", kB, dk, optimize=True)
            e, J = off[:, columns], slopes[:, columns] * seen[:, columns, None]
            squares = np.sum(e * e, axis=1)
            value += 0.5 * (count * np.log(2.0 * np.pi * v) + squares / v)
            slope -= np.einsum("nj,njk->nk", e, J) / v[:, None]
            slope += (0.5 * (count - squares / v) / v)[:, None] * dv
            information += np.einsum("njk,njl->nkl", J, J) / v[:, None, None]
            relative = dv / v[:, None]
            information += (0.5 * count)[:, None, None] * np.einsum(
                "nk,nl->nkl", relative, relative
            )
        return cls(value, slope, information)


def _slope_of_diagonal(model: GaussianProcesses, Z: Array) -> Array:
    """d k(z, z) / dz: 0 for kernels of a distance."""
    total = np.zeros_like(Z)
    for part in model.kernel.parts:
        slopes = getattr(part, "variances_of", None)
        if slopes is not None:
            total += 2.0 * Z * slopes(Z.shape[1])
    return total


def _descended(model: GaussianProcesses, Y: Array, Z: Array, most: int) -> tuple[Array, Array]:
    """Where each row ends, and its value there."""
    Z = Z.copy()
    n, q = Z.shape
    at = _Look.at(model, Y, Z)
    value, slope, information = at.value.copy(), at.slope.copy(), at.information.copy()
    damping, going = np.full(n, 1e-3), np.ones(n, dtype=bool)
    for _ in range(most):
        rows = np.flatnonzero(going)
        if len(rows) == 0:
            break
        size = np.einsum("nkk->nk", information[rows])
        damped = information[rows] + (damping[rows, None] * size)[:, :, None] * np.eye(q)
        step = np.linalg.solve(damped, slope[rows][:, :, None])[:, :, 0]
        there = _Look.at(model, Y[rows], Z[rows] - step)
        lower = there.value <= value[rows]
        went = rows[lower]
        Z[went] -= step[lower]
        value[went], slope[went] = there.value[lower], there.slope[lower]
        information[went] = there.information[lower]
        damping[went] *= 0.2
        damping[rows[~lower]] *= 5.0
        done = np.max(np.abs(step), axis=1) <= STEP
        going[rows[done | (damping[rows] > 1e8)]] = False
    return Z, value


def likely_starts(model: GaussianProcesses, Y: Array, Z: Array, k: int) -> Array:
    """k latents (n, k, q) for each row from which to seek its own, away from each other.

    Of the fitted latents Z (N, q) the one at which the row is most probable, prior included; then
    the most probable of those further than APART from it; and so on. Y (n, d) is standardised.
    """
    Z = _some(Z)
    seen = ~np.isnan(Y)
    x, m = np.where(seen, Y, 0.0), seen.astype(np.float64)
    mean, variance = model.predict(Z)
    mean, variance = (mean - model.mean) / model.unit, variance / model.unit**2
    of_mask = (np.log(variance) + mean**2 / variance).T
    prior = np.sum(Z * Z, axis=1)
    starts = np.empty((len(Y), k, Z.shape[1]))
    step = max(1, _PIECE // len(Z))
    for first in range(0, len(Y), step):
        rows = slice(first, min(first + step, len(Y)))
        cost = m[rows] @ of_mask + (x[rows] ** 2) @ (1.0 / variance).T
        cost += prior - 2.0 * x[rows] @ (mean / variance).T
        for j in range(k):
            best = Z[np.argmin(cost, axis=1)]
            starts[rows, j] = best
            near = _squared_distances(best, Z) <= APART**2
            cost = np.where(near, cost + FAR, cost)
    return starts


def _some(Z: Array) -> Array:
    """At most MOST_CANDIDATES of the rows, evenly spaced."""
    if len(Z) <= MOST_CANDIDATES:
        return Z
    return Z[np.linspace(0, len(Z) - 1, MOST_CANDIDATES).round().astype(np.intp)]


def _squared_distances(A: Array, B: Array) -> Array:
    squares = np.sum(A * A, axis=1)[:, None] + np.sum(B * B, axis=1)
    return np.asarray(squares - 2.0 * (A @ B.T))
