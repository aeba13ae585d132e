"""What a fitted GPLVM predicts for rows, fitted and new: latents, densities, expected cells.

A row that was in the fit, cell for cell, is recognised. A Bayesian fit has the Gaussian of its
latent. An exact fit judges it by the other rows: its own cells are taken out of the processes.
Of all others the posterior of the latent is found, several modes and curved ridges included:

p(z | x) of a row is proportional to p(x | z) N(z; 0, I). A sheet that comes near itself has rows
which may belong to either of two folds, and a row of which little was observed may lie anywhere
along a ridge: no single Gaussian stands for that. Points z_s with weights do:

    w_s = p(x | z_s) N(z_s; 0, I) / g(z_s),      p(x) ~ mean of the w_s

with g a mixture of Gaussians that were fitted to the row (importance sampling; the points of all
rounds are weighted by the mixture of all rounds, Veach and Guibas 1995; rounds as in the population
Monte Carlo of Cappe, Guillin, Marin and Robert 2004):

1. from the fitted latents at which the row is most probable some steps of Fisher scoring, and about
   each end a Gaussian with the inverse of the information there (Laplace's approximation), no wider
   than the functions are straight; and the prior;
2. while the weights are uneven: points are resampled by weight, each is moved by one step of Fisher
   scoring and gets its Gaussian in turn.

Normal deviates are those of an additive recurrence, the same for every row and every time (Roberts
2018, the generalised golden ratio): rows do not depend on each other, nor answers on a seed.

Moments of cells follow by the law of total variance, over z of the mean and of the variance at z.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigengap.fitting.gp.latent_points import (
    Look,
    Own,
    cost,
    first_steps,
    fisher_step,
    likely_starts,
    most_probable,
    none_of,
    predictions,
    width,
)
from eigengap.fitting.graph.duplicate_rows import Rows, found_among, row_hashes
from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import GaussianProcesses
from eigengap.models.maps.landmark import row_pieces

STARTS = 3  # fitted latents from which that of a new row is optimised
MODES = 16  # fitted latents from which modes are sought
CENTRES = 16  # points that are resampled for a further round
EACH = 32  # points about each
OF_PRIOR = 2048  # points from the prior, the same for all rows
ENOUGH = 400.0  # effective number of points, after which no round follows
ROUNDS = 4  # at most
STRAIGHT = 0.5  # of a length scale: where functions are still near their tangents
WIDER = 1.3  # by which proposals exceed Laplace's covariances: the tails must be reached


@dataclass(frozen=True, eq=False)
class FittedLatents:
    """The latents of the n fitted rows, and the processes from them to the columns."""

    model: GaussianProcesses
    predictive: GaussianProcesses  # the same with the noise of new cells
    Y: Array  # (n, d) the fitted rows, standardised
    Z: Array  # (n, q) latents, or their means
    sd: Array | None  # (n, q) their standard deviations; None of an exact fit

    @cached_property
    def _hashes(self) -> NDArray[np.uint8]:
        return row_hashes(self.Y)

    def own(self, Y: Array) -> Rows:
        """(c,) the fitted row that each row Y (c, d) is, cell for cell, or -1."""
        return found_among(row_hashes(Y), self._hashes)

    def latents(self, Y: Array) -> Array:
        """(c, q) the latents of standardised rows: the fitted ones, or the most probable."""
        own = self.own(Y)
        Z = np.zeros((len(Y), self.model.q))  # the prior mean, of a row without observed values
        Z[own >= 0] = self.Z[own[own >= 0]]
        new = np.flatnonzero((own < 0) & ~np.all(np.isnan(Y), axis=1))
        if len(new):
            Z[new] = self._most_probable(Y[new])
        return Z

    def _most_probable(self, Y: Array) -> Array:
        starts = likely_starts(self.predictive, Y, self.Z, STARTS)
        if self.sd is None:
            return most_probable(self.predictive, Y, starts)
        from eigengap.fitting.autodiff import latent_rows

        s = np.broadcast_to(np.mean(self.sd**2, axis=0), starts.shape)
        return latent_rows.most_probable(self.model, Y, starts, s).mu

    def posterior(self, Y: Array) -> LatentPosterior:
        """Moments of the latents of standardised rows, over all the places where they may be."""
        # Only an exact fit has a point of its support for each row that can be left out.
        each = self.sd is None and len(self.model.support) == len(self.Z)
        own = self.own(Y) if each else none_of(len(Y))
        return latent_posterior(self.predictive, Y, self.Z, own)

    def moments(self, Y: Array, at: Array | None = None) -> tuple[Array, Array]:
        """Mean (c, q) and covariance (c, q, q) of the latents of standardised rows.

        at (c, q) are latents known otherwise, about which the covariance is then taken.
        """
        q = self.model.q
        mean, cov = np.empty((len(Y), q)), np.empty((len(Y), q, q))
        fitted, own = self._with_gaussian(Y)
        if self.sd is not None:
            mean[fitted] = self.Z[own]
            cov[fitted] = self.sd[own][:, :, None] ** 2 * np.eye(q)
        new = np.flatnonzero(~fitted)
        if len(new):
            found = self.posterior(Y[new])
            mean[new], cov[new] = found.mean, found.cov
            if at is not None:
                off = found.mean - at[new]
                mean[new] = at[new]
                cov[new] += off[:, :, None] * off[:, None, :]
        return mean, cov

    def cells(self, Y: Array) -> tuple[Array, Array]:
        """Mean and variance (c, d) of the cells of standardised rows, in data units."""
        mean, variance = np.empty(Y.shape), np.empty(Y.shape)
        fitted, own = self._with_gaussian(Y)
        if self.sd is not None and len(own):
            mean[fitted], variance[fitted] = self.model.expect(self.Z[own], self.sd[own] ** 2)
        if not fitted.all():
            found = self.posterior(Y[~fitted])
            mean[~fitted] = found.cells * self.model.unit + self.model.mean
            variance[~fitted] = found.variance * self.model.unit**2
        return mean, variance

    def _with_gaussian(self, Y: Array) -> tuple[NDArray[np.bool_], Rows]:
        """Which rows have a Gaussian of their own from the fit, and which fitted rows they are."""
        own = self.own(Y)
        fitted = own >= 0 if self.sd is not None else np.zeros(len(Y), dtype=bool)
        return fitted, own[fitted]


@dataclass(frozen=True, eq=False)
class LatentPosterior:
    """Moments of the latent of each row and of its cells, in the units of the processes."""

    mean: Array  # (n, q)
    cov: Array  # (n, q, q)
    log_density: Array  # (n,) ln p(x), of the observed values
    cells: Array  # (n, d) expected cells, observed or not
    variance: Array  # (n, d) of cells, noise included
    effective: Array  # (n,) number of points that the weights are worth

    def put(self, into: LatentPosterior, rows: NDArray[np.intp]) -> None:
        for name, values in vars(self).items():
            getattr(into, name)[rows] = values


def latent_posterior(
    model: GaussianProcesses, Y: Array, candidates: Array, own: Own
) -> LatentPosterior:
    """Of standardised rows Y (n, d) with missing values, modes sought from the candidates (N, q).

    own (n,) is the point of the support that is the row itself, to be left out, or -1.
    """
    n, d, q = *Y.shape, model.q
    found = LatentPosterior(
        np.empty((n, q)), np.empty((n, q, q)), np.empty(n),
        np.empty((n, d)), np.empty((n, d)), np.empty(n),
    )  # fmt: skip
    starts = likely_starts(model, Y, candidates, MODES)
    prior = _PriorPoints.at(model, _deviates(OF_PRIOR, q))
    for rows in row_pieces(n, CENTRES * EACH * (len(model.support) + d) + MODES * width(model)):
        _fill(found, np.arange(n)[rows], model, Y[rows], starts[rows], own[rows], prior)
    empty = np.all(np.isnan(Y), axis=1)  # whose posterior is the prior
    found.mean[empty], found.cov[empty], found.log_density[empty] = 0.0, np.eye(q), 0.0
    return found


@dataclass(eq=False)
class _Points:
    """Weighted points of each row, and the Gaussians from which they came."""

    Z: Array  # (n, S, q)
    cost: Array  # (n, S) -ln p(x | z) - ln p(z), but for the constant of the prior
    mean: Array  # (n, S, d) of cells there
    variance: Array  # (n, S, d)
    centres: Array  # (n, K, q)
    precision: Array  # (n, K, q, q) of the Gaussians about them
    count: Array  # (K,) points of each

    @cached_property
    def log_weights(self) -> Array:
        """(n, S), whose mean is p(x)."""
        exponents = _features(self.Z) @ _coefficients(self.centres, self.precision)  # (n, S, K)
        exponents += np.log(self.count / np.sum(self.count))
        # (2 pi)^(q/2) of the prior and of the Gaussians cancel.
        return np.asarray(-self.cost - _log_sum(exponents))

    @property
    def weights(self) -> Array:
        """(n, S) that sum to 1."""
        return np.asarray(np.exp(self.log_weights - _log_sum(self.log_weights)[:, None]))

    def joined(self, other: _Points) -> _Points:
        both = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return _Points(*(np.concatenate(pair, axis=min(1, pair[0].ndim - 1)) for pair in both))

    def of(self, rows: NDArray[np.intp]) -> _Points:
        some = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "count"}
        return replace(self, **some)

    def moments(self, rows: NDArray[np.intp]) -> LatentPosterior:
        w, Z, means = self.weights[rows, None], self.Z[rows], self.mean[rows]
        mean, cells = w @ Z, w @ means
        off = Z - mean
        return LatentPosterior(
            mean[:, 0],
            (off * w.swapaxes(1, 2)).swapaxes(1, 2) @ off,
            _log_sum(self.log_weights[rows]) - np.log(Z.shape[1]),
            cells[:, 0],
            (w @ (self.variance[rows] + (means - cells) ** 2))[:, 0],
            1.0 / np.sum(w * w, axis=(1, 2)),
        )


def _features(Z: Array) -> Array:
    """z z', z and 1 of points (n, S, q): (n, S, q q + q + 1)."""
    n, S, q = Z.shape
    outer = (Z[:, :, :, None] * Z[:, :, None, :]).reshape(n, S, q * q)
    return np.concatenate([outer, Z, np.ones((n, S, 1))], axis=2)


def _coefficients(centres: Array, precision: Array) -> Array:
    """What gives the logarithms of the Gaussians, but for (2 pi)^(-q/2), from the features."""
    n, K, q = centres.shape
    pulled = np.einsum("nkij,nkj->nki", precision, centres)
    log_det = np.linalg.slogdet(precision)[1]
    alone = 0.5 * (log_det - np.sum(pulled * centres, axis=2))
    parts = [-0.5 * precision.reshape(n, K, q * q), pulled, alone[:, :, None]]
    return np.concatenate(parts, axis=2).swapaxes(1, 2)


def _log_sum(exponents: Array) -> Array:
    """ln sum exp over the last axis."""
    top = np.max(exponents, axis=-1)
    return np.asarray(top + np.log(np.sum(np.exp(exponents - top[..., None]), axis=-1)))


def _fill(
    found: LatentPosterior,
    rows: NDArray[np.intp],
    model: GaussianProcesses,
    Y: Array,
    starts: Array,
    own: Own,
    prior: _PriorPoints,
) -> None:
    """Put the moments of some rows where they belong."""
    ends, _ = first_steps(model, Y, starts, own)
    points = _drawn(model, Y, own, *_gaussians(model, Y, ends, own)).joined(prior.of(Y, own))
    for left in range(ROUNDS, -1, -1):
        w = points.weights
        enough = (1.0 / np.sum(w * w, axis=1) >= ENOUGH) | (left == 0)
        points.moments(np.flatnonzero(enough)).put(found, rows[enough])
        if np.all(enough):
            return
        going = np.flatnonzero(~enough)
        rows, Y, own, points = rows[going], Y[going], own[going], points.of(going)
        centres = _resampled(points.Z, w[going])
        further = _drawn(model, Y, own, *_gaussians(model, Y, centres, own, move=True))
        points = points.joined(further)


def _gaussians(
    model: GaussianProcesses, Y: Array, Z: Array, own: Own, move: bool = False
) -> tuple[Array, Array]:
    """Gaussians about points (n, K, q) of each row: centres, and precisions (n, K, q, q).

    No wider than functions are straight, nor further than that by one step of Fisher scoring,
    where they are to move.
    """
    n, K, q = Z.shape
    at = Look.at(model, np.repeat(Y, K, axis=0), Z.reshape(-1, q), np.repeat(own, K))
    local = at.information + np.diag((STRAIGHT * model.kernel.reach(q)) ** -2)
    local = local.reshape(n, K, q, q)
    if move:
        Z = Z - fisher_step(model, local, at.slope.reshape(n, K, q))
    return Z, local / WIDER


@dataclass(frozen=True, eq=False)
class _PriorPoints:
    """Points from the prior, at which all rows are looked at, with the predictions there."""

    model: GaussianProcesses
    Z: Array  # (S, q)
    k: Array  # (S, M) kernels with the support
    mean: Array  # (S, d)
    variance: Array  # (S, d)

    @classmethod
    def at(cls, model: GaussianProcesses, Z: Array) -> _PriorPoints:
        k = model.kernel.matrix(Z, model.support)
        return cls(model, Z, k, *predictions(model, Z, none_of(len(Z))))

    def of(self, Y: Array, own: Own) -> _Points:
        """As points of each row, which is left out of the predictions where it is its own."""
        model, n, (S, q), d = self.model, len(Y), self.Z.shape, Y.shape[1]
        mean = np.broadcast_to(self.mean, (n, S, d)).copy()
        variance = np.broadcast_to(self.variance, (n, S, d)).copy()
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
        Z = np.broadcast_to(self.Z, (n, S, q))
        unit = np.broadcast_to(np.eye(q), (n, 1, q, q))
        costs = cost(Y[:, None, :], Z, mean, variance)
        return _Points(Z, costs, mean, variance, np.zeros((n, 1, q)), unit, np.full(1, float(S)))


def _drawn(
    model: GaussianProcesses, Y: Array, own: Own, centres: Array, precision: Array
) -> _Points:
    """Points about the centres (n, K, q), EACH about each."""
    n, K, q = centres.shape
    d = Y.shape[1]
    normal = _deviates(K * EACH, q).reshape(EACH, K, q).swapaxes(0, 1)
    # P = L L', so that L'^-1 e has covariance P^-1.
    try:
        root = np.linalg.inv(np.linalg.cholesky(precision))
    except np.linalg.LinAlgError:
        raise ValueError(
            "the latents of a row cannot be separated in float64: their precision is not positive "
            "definite. The rows, or the model, are out of all range; fit with scale=True"
        ) from None
    Z = (centres[:, :, None] + normal @ root).reshape(n, K * EACH, q)
    mean, variance = predictions(model, Z.reshape(-1, q), np.repeat(own, K * EACH))
    mean, variance = mean.reshape(n, -1, d), variance.reshape(n, -1, d)
    costs = cost(Y[:, None, :], Z, mean, variance)
    return _Points(Z, costs, mean, variance, centres, precision, np.full(K, float(EACH)))


def _resampled(Z: Array, w: Array) -> Array:
    """CENTRES of the points (n, S, q), by weight, evenly along the sum of the weights."""
    n, q = len(Z), Z.shape[2]
    chosen = np.empty((n, CENTRES, q))
    levels = (np.arange(CENTRES) + 0.5) / CENTRES
    for i, total in enumerate(np.cumsum(w, axis=1)):
        at = np.searchsorted(total, levels * total[-1])
        chosen[i] = Z[i, np.minimum(at, Z.shape[1] - 1)]
    return chosen


def _deviates(count: int, q: int) -> Array:
    """(count, q) standard normal, evenly spaced."""
    golden = 2.0
    for _ in range(60):
        golden = (1.0 + golden) ** (1.0 / (q + 1.0))
    steps = golden ** -np.arange(1.0, q + 1.0)
    uniform = (0.5 + np.arange(1.0, count + 1.0)[:, None] * steps) % 1.0
    return np.asarray(ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12)))
