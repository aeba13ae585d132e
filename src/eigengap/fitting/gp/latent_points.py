"""Latents of rows under Gaussian processes at known latents, by Fisher scoring.

For each row by itself the most probable z given what was observed of x,

    -ln p(x | z) - ln p(z) = sum over observed j of 1/2 ln 2 pi v_j(z) + (x_j - m_j(z))^2 / 2 v_j(z)
                             + |z|^2 / 2 + const.

m and v are the predictions of the processes, noise in v. Steps are those of Fisher scoring,

    (I + sum_j m_j' m_j'^T / v_j + sum_j v_j' v_j'^T / 2 v_j^2 + damping)^-1 gradient

which need only slopes, and go downhill always; the damping grows where a step would not.

A row of the fit is among what the processes were conditioned on. Where it is asked how probable it
is, or where else its latent may be, its own cells are taken out of them first, or they would count
twice: with b the i-th diagonal entry of B_j and c(z) that of k(z, U) B_j (as in
`models.gp.gaussian_process`),

    m_j(z) - c(z) w_ij / b     and     v_j(z) + c(z)^2 / b

are the predictions from all other rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import GaussianProcesses

Own = NDArray[np.intp]  # (n,) which point of the support is the row itself, -1 where none is

MOST_STEPS = 200
FIRST_STEPS = 10  # of all starts, before the best of them goes on alone
LONGEST = 3.0  # step, in units of the prior's standard deviation or of the length scales
STEP = 1e-8  # size of a step at which a row is done
APART = 0.5  # distance of two starts, where the prior's standard deviation is 1
MOST_CANDIDATES = 2000  # fitted latents among which starts are sought
FAR = 1e100  # added to the cost of what is near a start already
PIECE = 1 << 21  # numbers that are held at a time


def most_probable(model: GaussianProcesses, Y: Array, starts: Array) -> Array:
    """(n, q) of standardised new rows Y (n, d) with missing values (NaN), from starts (n, k, q)."""
    n, k, q = starts.shape
    found = np.empty((n, q))
    for rows in pieces(n, k * width(model)):
        some, own = Y[rows], none_of(n)[rows]
        near, value = first_steps(model, some, starts[rows], own)
        best = np.argmin(value, axis=1)
        found[rows] = _descended(model, some, near[np.arange(len(best)), best], own, MOST_STEPS)[0]
    return found


def first_steps(model: GaussianProcesses, Y: Array, starts: Array, own: Own) -> tuple[Array, Array]:
    """Where some steps lead from the starts (n, k, q), and the values there (n, k)."""
    n, k, q = starts.shape
    Z, value = _descended(
        model,
        np.repeat(Y, k, axis=0),
        starts.reshape(-1, q),
        np.repeat(own, k),
        FIRST_STEPS,
    )
    return Z.reshape(n, k, q), value.reshape(n, k)


def none_of(n: int) -> Own:
    """Of rows that are new."""
    return np.full(n, -1, dtype=np.intp)


def width(model: GaussianProcesses) -> int:
    """Numbers that looking at one point takes."""
    return len(model.support) * (model.q + len(model.reductions))


def pieces(n: int, width: int) -> list[slice]:
    """Rows that are worked on at a time."""
    step = max(1, PIECE // max(width, 1))
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]


def predictions(model: GaussianProcesses, Z: Array, own: Own) -> tuple[Array, Array]:
    """Mean and variance (n, d) of standardised cells at Z (n, q), own rows left out, with noise."""
    k = model.kernel.matrix(Z, model.support)
    prior = model.kernel.diagonal(Z)
    mean, variance = k @ model.weights, np.empty((len(Z), model.d))
    for p, B in enumerate(model.reductions):
        columns = np.flatnonzero(model.pattern == p)
        kB = k @ B
        left = prior - np.einsum("nm,nm->n", kB, k)
        rows, c, b = _taken_out(kB, B, own)
        left[rows] += c * c / b
        mean[np.ix_(rows, columns)] -= (c / b)[:, None] * model.weights[np.ix_(own[rows], columns)]
        variance[:, columns] = (np.maximum(left, 0.0) + model.noise_variance)[:, None]
    return mean, variance


@dataclass(frozen=True, eq=False)
class SharedPoints:
    """Points at which all rows are looked at, with the predictions there."""

    model: GaussianProcesses
    Z: Array  # (S, q)
    k: Array  # (S, M) kernels with the support
    mean: Array  # (S, d)
    variance: Array  # (S, d)

    @classmethod
    def at(cls, model: GaussianProcesses, Z: Array) -> SharedPoints:
        k = model.kernel.matrix(Z, model.support)
        return cls(model, Z, k, *predictions(model, Z, none_of(len(Z))))

    def without(self, own: Own) -> tuple[Array, Array]:
        """The predictions (n, S, d) for rows that are left out of them, or not."""
        model, (S, d) = self.model, self.mean.shape
        mean = np.broadcast_to(self.mean, (len(own), S, d)).copy()
        variance = np.broadcast_to(self.variance, (len(own), S, d)).copy()
        for p, B in enumerate(model.reductions):
            columns = np.flatnonzero(model.pattern == p)
            rows = np.flatnonzero(own >= 0)
            rows = rows[B[own[rows], own[rows]] > 0.0]
            if len(rows):
                b, c = B[own[rows], own[rows]], (self.k @ B[:, own[rows]]).T  # (r, S)
                w = model.weights[np.ix_(own[rows], columns)] / b[:, None]
                at = np.ix_(rows, np.arange(S), columns)
                mean[at] -= c[:, :, None] * w[:, None, :]
                variance[at] += (c * c / b[:, None])[:, :, None]
        return mean, variance


def cost(Y: Array, Z: Array, mean: Array, variance: Array) -> Array:
    """-ln p(x | z) - ln p(z) of rows Y (..., d), but for the constant of the prior."""
    observed = ~np.isnan(Y)
    off = np.where(observed, Y, 0.0) - mean
    terms = np.log(2.0 * np.pi * variance) + off * off / variance
    return np.asarray(
        0.5 * np.sum(np.where(observed, terms, 0.0), axis=-1) + 0.5 * np.sum(Z * Z, -1)
    )


def _taken_out(kB: Array, B: Array, own: Own) -> tuple[NDArray[np.intp], Array, Array]:
    """Rows that are among the support with these columns observed, their c(z) and their b."""
    rows = np.flatnonzero(own >= 0)
    b = B[own[rows], own[rows]]
    rows, b = rows[b > 0.0], b[b > 0.0]
    return rows, kB[rows, own[rows]], b


@dataclass(frozen=True, eq=False)
class Look:
    """Value, slope and information at one point for each row."""

    value: Array  # (n,) without the constant of the prior
    slope: Array  # (n, q)
    information: Array  # (n, q, q)

    @classmethod
    def at(cls, model: GaussianProcesses, Y: Array, Z: Array, own: Own) -> Look:
        k = model.kernel.matrix(Z, model.support)
        dk = model.kernel.slopes(Z, model.support)  # (n, M, q)
        prior = model.kernel.diagonal(Z)
        prior_slope = _slope_of_diagonal(model, Z)
        observed = ~np.isnan(Y)
        mean = k @ model.weights
        slopes = np.einsum("nmk,mj->njk", dk, model.weights, optimize=True)
        n, q = Z.shape
        value = 0.5 * np.sum(Z * Z, axis=1)
        slope, information = Z.copy(), np.broadcast_to(np.eye(q), (n, q, q)).copy()
        for p, B in enumerate(model.reductions):
            columns = np.flatnonzero(model.pattern == p)
            kB = k @ B
            v = np.maximum(prior - np.einsum("nm,nm->n", kB, k), 0.0) + model.noise_variance
            dv = prior_slope - 2.0 * np.einsum("nm,nmk->nk", kB, dk, optimize=True)
            m, J = mean[:, columns], slopes[:, columns]
            rows, c, b = _taken_out(kB, B, own)
            if len(rows):
                dc = np.einsum("nmk,nm->nk", dk[rows], B[own[rows]], optimize=True)
                w = model.weights[np.ix_(own[rows], columns)] / b[:, None]
                v[rows] += c * c / b
                dv[rows] += (2.0 * c / b)[:, None] * dc
                m[rows] -= c[:, None] * w
                J[rows] -= w[:, :, None] * dc[:, None, :]
            count = np.sum(observed[:, columns], axis=1)
            e = np.where(observed[:, columns], np.nan_to_num(Y[:, columns]) - m, 0.0)
            J = J * observed[:, columns, None]
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


def _descended(
    model: GaussianProcesses, Y: Array, Z: Array, own: Own, most: int
) -> tuple[Array, Array]:
    """Where each row ends, and its value there."""
    Z = Z.copy()
    n, q = Z.shape
    at = Look.at(model, Y, Z, own)
    value, slope, information = at.value.copy(), at.slope.copy(), at.information.copy()
    damping, going = np.full(n, 1e-3), np.ones(n, dtype=bool)
    for _ in range(most):
        rows = np.flatnonzero(going)
        if len(rows) == 0:
            break
        size = np.einsum("nkk->nk", information[rows])
        damped = information[rows] + (damping[rows, None] * size)[:, :, None] * np.eye(q)
        step = fisher_step(model, damped, slope[rows])
        there = Look.at(model, Y[rows], Z[rows] - step, own[rows])
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


def fisher_step(model: GaussianProcesses, information: Array, slope: Array) -> Array:
    """information^-1 slope (..., q), no longer than slopes describe the functions."""
    step = np.linalg.solve(information, slope[..., None])[..., 0]
    most = LONGEST * np.maximum(model.kernel.reach(model.q), 1.0)
    return np.asarray(step / np.maximum(np.max(np.abs(step) / most, axis=-1, keepdims=True), 1.0))


def likely_starts(model: GaussianProcesses, Y: Array, Z: Array, k: int) -> Array:
    """k latents (n, k, q) for each row from which to seek its own, away from each other.

    Of the fitted latents Z (N, q) the one at which the row is most probable, prior included; then
    the most probable of those further than APART from it; and so on. Y (n, d) is standardised.
    """
    Z = _some(Z)
    observed = ~np.isnan(Y)
    x, m = np.where(observed, Y, 0.0), observed.astype(np.float64)
    mean, variance = predictions(model, Z, none_of(len(Z)))
    of_mask = (np.log(variance) + mean**2 / variance).T
    prior = np.sum(Z * Z, axis=1)
    starts = np.empty((len(Y), k, Z.shape[1]))
    for rows in pieces(len(Y), len(Z)):
        costs = m[rows] @ of_mask + (x[rows] ** 2) @ (1.0 / variance).T
        costs += prior - 2.0 * x[rows] @ (mean / variance).T
        for j in range(k):
            best = Z[np.argmin(costs, axis=1)]
            starts[rows, j] = best
            near = _squared_distances(best, Z) <= APART**2
            costs = np.where(near, costs + FAR, costs)
    return starts


def _some(Z: Array) -> Array:
    """At most MOST_CANDIDATES of the rows, evenly spaced."""
    if len(Z) <= MOST_CANDIDATES:
        return Z
    return Z[np.linspace(0, len(Z) - 1, MOST_CANDIDATES).round().astype(np.intp)]


def _squared_distances(A: Array, B: Array) -> Array:
    squares = np.sum(A * A, axis=1)[:, None] + np.sum(B * B, axis=1)
    return np.asarray(squares - 2.0 * (A @ B.T))
