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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import GaussianProcesses
from eigengap.models.gp.kernels import squared_distances
from eigengap.models.maps.landmark import row_pieces

Own = NDArray[np.intp]  # (n,) which point of the support is the row itself, -1 where none is

MOST_STEPS = 200
FIRST_STEPS = 10  # of all starts, before the best of them goes on alone
LONGEST = 3.0  # step, in units of the prior's standard deviation or of the length scales
STEP = 1e-8  # size of a step at which a row is done
APART = 0.5  # distance of two starts, where the prior's standard deviation is 1
MOST_CANDIDATES = 2000  # fitted latents among which starts are sought
FAR = 1e100  # added to the cost of what is near a start already


@dataclass(eq=False)
class Descent:
    """Damped steps downhill of many rows, each at its own pace."""

    look: Callable[[NDArray[np.intp], Array], tuple[Array, Array, Array]]
    """Value (c,), slope (c, p) and curvature (c, p, p) of some rows (c,) at points (c, p)."""
    step: Callable[[Array, Array, Array], Array]
    """What to subtract (c, p), from slope, curvature and damping (c,); shorter where damped."""
    x: Array  # (n, p) where each row is
    least: float  # size of a step at which a row is done
    rounding: float = 0.0  # relative to the value, by which it may rise

    def __post_init__(self) -> None:
        n, self.x = len(self.x), self.x.copy()
        self.value, self.slope, self.bend = self.look(np.arange(n), self.x)
        self.damping, self.going = np.full(n, 1e-3), np.ones(n, dtype=bool)

    def steps(self, most: int) -> None:
        """Up to so many steps of the rows that still go."""
        for _ in range(most):
            at = np.flatnonzero(self.going)
            if len(at) == 0:
                return
            step = self.step(self.slope[at], self.bend[at], self.damping[at])
            value, slope, bend = self.look(at, self.x[at] - step)
            lower = value <= self.value[at] + self.rounding * (1.0 + np.abs(self.value[at]))
            went = at[lower]
            self.x[went] -= step[lower]
            self.value[went], self.slope[went] = value[lower], slope[lower]
            self.bend[went] = bend[lower]
            self.damping[at] *= np.where(lower, 0.2, 5.0)
            done = np.max(np.abs(step), axis=1) <= self.least
            self.going[at[done | (self.damping[at] > 1e8)]] = False


def most_probable(model: GaussianProcesses, Y: Array, starts: Array) -> Array:
    """(n, q) of standardised new rows Y (n, d) with missing values (NaN), from starts (n, k, q)."""
    n, k, q = starts.shape
    found = np.empty((n, q))
    for rows in row_pieces(n, k * width(model)):
        some, own = Y[rows], none_of(n)[rows]
        near, value = first_steps(model, some, starts[rows], own)
        best = near[np.arange(len(some)), np.argmin(value, axis=1)]
        found[rows] = _descended(model, some, best, own, MOST_STEPS).x
    return found


def first_steps(model: GaussianProcesses, Y: Array, starts: Array, own: Own) -> tuple[Array, Array]:
    """Where some steps lead from the starts (n, k, q), and the values there (n, k)."""
    n, k, q = starts.shape
    Y, own = np.repeat(Y, k, axis=0), np.repeat(own, k)
    found = _descended(model, Y, starts.reshape(-1, q), own, FIRST_STEPS)
    return found.x.reshape(n, k, q), found.value.reshape(n, k)


def _descended(model: GaussianProcesses, Y: Array, Z: Array, own: Own, most: int) -> Descent:
    found = Descent(
        lambda at, Z: Look.at(model, Y[at], Z, own[at]), partial(_damped_step, model), Z, STEP
    )
    found.steps(most)
    return found


def _damped_step(
    model: GaussianProcesses, slope: Array, information: Array, damping: Array
) -> Array:
    size = np.einsum("nkk->nk", information)
    damped = information + (damping[:, None] * size)[:, :, None] * np.eye(model.q)
    return fisher_step(model, damped, slope)


def fisher_step(model: GaussianProcesses, information: Array, slope: Array) -> Array:
    """information^-1 slope (..., q), no longer than slopes describe the functions."""
    step = np.linalg.solve(information, slope[..., None])[..., 0]
    most = LONGEST * np.maximum(model.kernel.reach(model.q), 1.0)
    return np.asarray(step / np.maximum(np.max(np.abs(step) / most, axis=-1, keepdims=True), 1.0))


def none_of(n: int) -> Own:
    """Of rows that are new."""
    return np.full(n, -1, dtype=np.intp)


def width(model: GaussianProcesses) -> int:
    """Numbers that looking at one point takes."""
    return len(model.support) * (model.q + len(model.reductions))


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


class Look(NamedTuple):
    """Value, slope and information at one point for each row."""

    value: Array  # (n,) without the constant of the prior
    slope: Array  # (n, q)
    information: Array  # (n, q, q)

    @classmethod
    def at(cls, model: GaussianProcesses, Y: Array, Z: Array, own: Own) -> Look:
        k = model.kernel.matrix(Z, model.support)
        dk = model.kernel.slopes(Z, model.support)  # (n, M, q)
        prior = model.kernel.diagonal(Z)
        prior_slope = model.kernel.slopes_of_diagonal(Z)
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


def likely_starts(model: GaussianProcesses, Y: Array, Z: Array, k: int) -> Array:
    """k latents (n, k, q) for each row from which to seek its own, away from each other.

    Of the fitted latents Z (N, q) the one at which the row is most probable, prior included; then
    the most probable of those further than APART from it; and so on. Y (n, d) is standardised.
    """
    if len(Z) > MOST_CANDIDATES:  # evenly spaced
        Z = Z[np.linspace(0, len(Z) - 1, MOST_CANDIDATES).round().astype(np.intp)]
    observed = ~np.isnan(Y)
    x, m = np.where(observed, Y, 0.0), observed.astype(np.float64)
    mean, variance = predictions(model, Z, none_of(len(Z)))
    of_mask = (np.log(variance) + mean**2 / variance).T
    prior = np.sum(Z * Z, axis=1)
    starts = np.empty((len(Y), k, Z.shape[1]))
    for rows in row_pieces(len(Y), len(Z)):
        costs = m[rows] @ of_mask + (x[rows] ** 2) @ (1.0 / variance).T
        costs += prior - 2.0 * x[rows] @ (mean / variance).T
        for j in range(k):
            best = Z[np.argmin(costs, axis=1)]
            starts[rows, j] = best
            near = squared_distances(best, Z) <= APART**2
            costs = np.where(near, costs + FAR, costs)
    return starts
