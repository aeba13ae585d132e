"""The one EM problem: units, noise floor, packing, Jacobian and runs, for every EM fit.

PPCA, factor analysis, the unrestricted Gaussian, Bayesian PCA, mixtures and online EM differ in
their E- and M-step. What they share is here.

A fit runs in units r = (x - shift) / unit, in which columns have variance 1 (`Units`): each column
by its own standard deviation where the noise is diagonal, for factor analysis is covariant under
rescaling; all columns by one number where it is isotropic. Parameters are packed into a vector
theta of coordinates of size about 1 (`Packing`), which `fitting.optimise.em` moves. A `Problem`
supplies the EM map theta -> G(theta), and `Problem.run` iterates it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any, Generic, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.optimise.em import Bounds, Mapped, Slope, em
from eigengap.fitting.optimise.loop import Trace, Watch
from eigengap.linalg import Array
from eigengap.models.gaussian.information import Noise as LearnedNoise
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.sources.base import Block, Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.expected.gaussian import Constraints, Parameters
from eigengap.statistics.expected.heteroscedastic import KnownVariances
from eigengap.statistics.expected.student import LARGEST_NU
from eigengap.statistics.moments import ColumnMoments, refuse_out_of_range, refuse_tiny_columns

Noise = Literal["isotropic", "diagonal"]

# Least noise variance relative to the smallest variance of a column (PPCA) or the column's own
# (FA): a row's posterior covariance still has nine digits there, which EM needs to stay monotone.
# Factor analysis does reach its floor (Heywood cases); 1e-6 costs less than 1e-6 nats a row.
FLOOR = 1e-6
# Relative to the largest variance the noise of PPCA may be smaller, because the precisions are
# graded, but not beyond all bounds.
LARGEST_RATIO = 1e-13
AT_FLOOR = 1 + 1e-3  # times the floor: what counts as having reached it
LOST_IN_SUMS = 1e6  # signal over noise beyond which an E-step has fewer than nine digits
SNAP_BELOW = 0.01  # noise variance relative to its column's at which the floor may be tried
SNAP_ABOVE_NU = 30.0  # degrees of freedom beyond which the Gaussian may be tried
LEAST_SHARE = 1e-6  # of the rows in which a feature is observed: with fewer it has no scale
MOST_PASSES = 50  # that are promised to the compiled kernel

# Rows whose patterns are kept: as many as make the information cost some 5e7 operations. Their
# average hardly varies (25 rows and all of 200 give the same intervals to three digits).
PATTERN_OPERATIONS = 5e7
FEWEST_PATTERNS, MOST_PATTERNS = 32, 2000


@dataclass(frozen=True)
class EMOptions:
    """How to fit, apart from the model: see `eigengap.PPCA` for the meaning of each."""

    tol: float = 1e-6
    max_iter: int = 1000
    n_init: int = 1
    seed: int = 0
    watch: Watch | None = None
    start: LinearGaussian | None = None


DEFAULT = EMOptions()


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianFit:
    """A fitted model and how it was reached."""

    model: LinearGaussian
    axes: Array  # (d, q) orthonormal principal axes of the model
    spectrum: Spectrum
    log_likelihood: float  # of all rows, weighted
    observed_w: Array  # (d,) weighted number of rows in which each feature was observed
    sum_w: float
    converged: bool = True
    trace: Trace = field(default_factory=Trace)  # empty where nothing was iterated
    at_floor: tuple[int, ...] = ()  # features whose noise variance fell to the floor

    @property
    def n_iter(self) -> int:
        return len(self.trace)


# Units ------------------------------------------------------------------------------------------


def column_moments(source: Source, noise: Noise, *, fit_mean: bool = True) -> ColumnMoments:
    """Mean and variance of each column; refuses tables whose squares leave floating point."""
    columns = source.reduce(ColumnMoments.of)
    with np.errstate(over="ignore"):  # refused
        total = float(np.sum(columns.variance))
        total += 0.0 if fit_mean else float(np.sum(columns.mean**2))
    refuse_out_of_range(source, total, fit_mean)
    if noise == "diagonal":
        refuse_tiny_columns(source, columns.variance)
    return columns


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a fit, r = (x - shift) / unit, and what is known of its columns."""

    shift: Array  # (d,)
    unit: Array  # (d,)
    variance: Array  # (d,) of r
    observed_w: Array  # (d,) weighted number of rows in which each column was observed
    sum_w: float  # of all rows

    @classmethod
    def of(
        cls, shift: Array, variance: Array, noise: Noise, observed_w: Array, sum_w: float
    ) -> Units:
        """Units for columns of this variance about the shift (d,), in the units of the data.

        A constant column has the unit of the others; a constant table keeps its own.
        """
        mean = float(np.mean(variance))
        unit = np.full(len(variance), np.sqrt(mean) if mean > 0 else 1.0)
        if noise == "diagonal":
            unit = np.where(variance > 0, np.sqrt(variance), unit)
        return cls(shift, unit, variance / unit**2, observed_w, sum_w)

    @classmethod
    def of_columns(cls, source: Source, columns: ColumnMoments, noise: Noise) -> Units:
        """Units about the column means."""
        sum_w = source.observed().sum_w
        return cls.of(columns.mean, columns.variance, noise, columns.sum_w, sum_w)

    @property
    def d(self) -> int:
        return len(self.unit)

    @property
    def cells(self) -> float:
        """Weighted number of observed cells."""
        return float(np.sum(self.observed_w))

    @property
    def share_observed(self) -> Array:
        return self.observed_w / self.sum_w

    @property
    def size(self) -> Array:
        """(d,) standard deviation of each column of r; 1 for constant columns."""
        return np.where(self.variance > 0, np.sqrt(self.variance), 1.0)

    @property
    def log_jacobian(self) -> float:
        """Log-density of all observed cells in these units minus that in units of the data."""
        return float(self.observed_w @ np.log(self.unit))

    def floor(self, noise: Noise) -> Array:
        return noise_floor(self.variance, noise)

    def prepare(self, block: Block, q: int) -> ObservedRows:
        """The rows of a block as an E-step of rank q takes them."""
        values, weight = dense(block), block.weight
        return prepare_rows(values, weight, self.shift, self.unit, q, observed=block.observed)

    def in_data(self, trace: Trace) -> Trace:
        """The trace of a log-likelihood in these units as one in units of the data."""
        return replace(trace, objective=trace.objective - self.log_jacobian)


def noise_floor(variance: Array, noise: Noise) -> Array:
    """(d,) least noise variance of columns of this variance."""
    positive = variance[variance > 0]
    if len(positive) == 0:
        return np.full(len(variance), FLOOR)
    if noise == "diagonal":
        return FLOOR * np.where(variance > 0, variance, 1.0)
    smallest, largest = float(np.min(positive)), float(np.max(positive))
    return np.full(len(variance), max(FLOOR * smallest, LARGEST_RATIO * largest))


def dense(block: Block) -> Any:
    # A sparse table is complete, and centring fills it: EM has no use for its zeros.
    return block.values if isinstance(block.values, np.ndarray) else block.values.toarray()


# Packing ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Packing:
    """Parameters of one or several linear-Gaussian models as one vector theta, and back.

    theta = (all W_k / size, all delta_k / size, ln of the weights, ln(psi + known), tail of nu).
    Those of a mixture have weights. Noise variances enter as ln(psi + c), c the least known noise
    of a cell: that is what an M-step moves, and without it psi = 0 would lie at minus infinity.
    """

    units: Units
    constraints: Constraints
    ranks: tuple[int, ...]
    has_weights: bool = False
    shared_noise: bool = False  # by all models
    least_known: Array | None = None  # (d,) c of each column
    learns_nu: bool = False

    @property
    def K(self) -> int:
        return len(self.ranks)

    @property
    def known(self) -> Array:
        """c of each learned noise variance of a model: (0,), (1,) or (d,)."""
        known = np.zeros(self.units.d) if self.least_known is None else self.least_known
        if self.constraints.fixed_noise is not None:
            return known[:0]
        return known if self.constraints.noise == "diagonal" else np.array([np.min(known)])

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where loadings, means, weights, noise variances and nu lie."""
        d, K = self.units.d, self.K
        n_noise = len(self.known) * (1 if self.shared_noise else K)
        sizes = (d * sum(self.ranks), K * d, K * self.has_weights, n_noise, int(self.learns_nu))
        ends = np.cumsum((0, *sizes)).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @property
    def length(self) -> int:
        return int(self.slices[-1].stop)

    def pack(self, models: Sequence[Parameters], log_weights: Array | None = None) -> Array:
        size, known = self.units.size, self.known
        noisy = models[:1] if self.shared_noise else models
        parts = [
            *((m.W / size[:, None]).ravel() for m in models),
            *(m.delta / size for m in models),
            *([log_weights] if log_weights is not None else []),
            *(np.log(m.psi[: len(known)] + known) for m in noisy),
            *([np.array([_tail(models[0].nu)])] if self.learns_nu else []),
        ]
        return np.concatenate(parts)

    def unpack(self, theta: Array) -> tuple[tuple[Parameters, ...], Array]:
        """The models, and the log-weights (K,) of a mixture."""
        units, how, d, K = self.units, self.constraints, self.units.d, self.K
        size = units.size
        loadings, means, weights, noise, tail = (theta[at] for at in self.slices)
        if how.fixed_noise is None:
            log_psi = noise.reshape(1 if self.shared_noise else K, -1)
            psi = np.exp(np.clip(log_psi, -700.0, 700.0)) - self.known
        else:
            psi = np.array([[how.fixed_noise]])
        psi = np.maximum(np.broadcast_to(psi, (K, d)), how.floor)
        nu = inf if how.fixed_nu is None else how.fixed_nu
        if self.learns_nu:
            nu = 10.0 / np.expm1(np.clip(float(tail[0]), _tail(LARGEST_NU), _tail(how.least_nu)))
        delta = means.reshape(K, d) * size
        W = np.split(loadings, np.cumsum([d * q for q in self.ranks])[:-1])
        models = tuple(
            Parameters(W[k].reshape(d, q) * size[:, None], delta[k], psi[k], nu)
            for k, q in enumerate(self.ranks)
        )
        return models, weights - np.logaddexp.reduce(weights) if self.has_weights else weights

    def slope(
        self,
        at: Sequence[Parameters],
        by: Sequence[Parameters],  # derivatives of the log-likelihood by the parameters
        observed: Array,  # (K, d) weighted rows of each model in which a feature is observed
        *,
        log_weights: Array | None = None,  # (K,)
        sum_w: Array | None = None,  # (K,) weighted rows of each model
        known: Array | float = 0.0,  # (d,) known noise variance of a typical cell
    ) -> Slope:
        """The derivatives by the entries of theta per cell, and their scale."""
        units, how, size = self.units, self.constraints, self.units.size
        share = np.maximum(observed, LEAST_SHARE * units.sum_w) / units.cells  # (K, d)
        scale = [
            _loading_scale(a.W, a.psi + known, own) / size for a, own in zip(at, share, strict=True)
        ]
        gradients = [
            *((b.W * size[:, None]).ravel() for b in by),
            *(b.delta * size if how.fit_mean else np.zeros(units.d) for b in by),
        ]
        scales = [*(np.repeat(each, q) for each, q in zip(scale, self.ranks, strict=True)), *scale]
        if log_weights is not None and sum_w is not None:
            rows = np.exp(log_weights) * units.sum_w
            gradients.append(sum_w - rows)
            scales.append(np.sqrt(units.cells / rows))
        if how.fixed_noise is None:
            by_noise = np.stack(
                [b.psi * (a.psi + self.known) for a, b in zip(at, by, strict=True)]
            )  # (K, d)
            information = share / 2.0
            if self.shared_noise:
                by_noise, information = by_noise.sum(axis=0), information.sum(axis=0)
            if how.noise == "isotropic":
                by_noise, information = by_noise.sum(axis=-1), information.sum(axis=-1)
            gradients.append(np.ravel(by_noise))
            scales.append(1.0 / np.sqrt(np.ravel(information)))
        if self.learns_nu:
            nu = at[0].nu
            gradients.append(np.array([by[0].nu * -nu * (nu + 10.0) / 10.0]))
            scales.append(np.ones(1))
        return Slope(np.concatenate(gradients) / units.cells, np.concatenate(scales))

    def bounds(self) -> Bounds:
        """The floor of the noise, and the limits of the degrees of freedom."""
        *_, noise, nu = self.slices
        bounds = Bounds.none(self.length)
        bounds.lower[noise] = self._log_floor()
        if self.learns_nu:
            bounds.lower[nu] = _tail(LARGEST_NU)
            bounds.upper[nu] = _tail(self.constraints.least_nu)
        return bounds

    def at_limits(self, theta: Array, image: Array, variance: Array | float = 1.0) -> Array | None:
        """The image with what converges slowly put at its limit; None where nothing does.

        Noise variances that are small, relative to `variance` of their columns, and fall go to
        their floor (Heywood cases; psi that the known noise leaves nothing to explain). Degrees of
        freedom that are large and rise go to the Gaussian's.
        """
        target, known = image.copy(), self.known
        *_, noise, nu = self.slices
        if len(known) == self.units.d or known.any():
            log_psi, floor = image[noise], self._log_floor()
            small = np.log(np.maximum(SNAP_BELOW * variance, 0.5 * known) + known).ravel()
            slow = (log_psi < small) & (log_psi > floor + 1e-3) & (log_psi < theta[noise])
            target[noise] = np.where(slow, floor, log_psi)
        if self.learns_nu:
            slow = (image[nu] < _tail(SNAP_ABOVE_NU)) & (image[nu] < theta[nu])
            target[nu] = np.where(slow, _tail(LARGEST_NU), image[nu])
        return None if np.array_equal(target, image) else target

    def _log_floor(self) -> Array:
        """The floor of each noise coordinate."""
        known = self.known
        floor = np.log(self.constraints.floor[: len(known)] + known)
        return np.tile(floor, 1 if self.shared_noise else self.K)


def _loading_scale(W: Array, psi: Array, share: Array) -> Array:
    """(d,) scale of the loadings and of the mean of each column, which has a share of the cells.

    The information of a loading lies between the complete data's, n / psi, and what is left of it
    where the latent variables are hardly known, n / (w^T w + psi). The scale is by their geometric
    mean, for near a noise of zero the former is no guide to what a step gains.
    """
    total = np.einsum("jq,jq->j", W, W) + psi
    return np.asarray(np.sqrt(np.sqrt(psi * total) / share))


def _tail(nu: float) -> float:
    """Degrees of freedom as a coordinate: like -ln nu where they are few, 0 for the Gaussian."""
    return float(np.log1p(10.0 / nu))


# Runs -------------------------------------------------------------------------------------------

P = TypeVar("P")  # parameters


@dataclass(frozen=True, eq=False)
class Run(Generic[P]):
    """Where EM went from one start."""

    parameters: P
    objective: float
    converged: bool
    trace: Trace

    def then(self, later: Run[P]) -> Run[P]:
        """One run after the other, as one."""
        return replace(later, trace=self.trace.then(later.trace))


class Problem(ABC, Generic[P]):
    """An EM fit in its own units.

    `like` are parameters of the shapes that a run has, its start for instance.
    """

    units: Units

    @abstractmethod
    def pack(self, parameters: P) -> Array:
        """Parameters as one vector, each coordinate of size about 1."""

    @abstractmethod
    def unpack(self, theta: Array, like: P) -> P:
        """The other way."""

    @abstractmethod
    def apply(self, theta: Array, like: P, passes: int = 1) -> Mapped:
        """The EM map: one E-step, which is a pass over the rows, and one M-step.

        `passes` is how many are to be expected, for the choice of a compiled kernel.
        """

    def bounds(self, like: P) -> Bounds | None:
        """Between which theta is to stay."""
        return None

    def boundary_step(self, theta: Array, image: Array, like: P) -> Array | None:
        """What EM only approaches slowly, put at the boundary: a point to try, or None."""
        return None

    def is_degenerate(self, theta: Array, like: P) -> bool:
        """Whether rounding at theta may be larger than the guard of EM allows."""
        return False

    def run(self, start: P, options: EMOptions) -> Run[P]:
        """EM from a start until neither the parameters nor the objective move."""
        end = em(
            partial(self.apply, like=start, passes=min(options.max_iter, MOST_PASSES)),
            self.pack(start),
            tol=options.tol,
            max_iter=options.max_iter,
            cells=self.units.cells,
            bounds=self.bounds(start),
            boundary_step=partial(self.boundary_step, like=start),
            is_degenerate=partial(self.is_degenerate, like=start),
            watch=options.watch,
        )
        return Run(self.unpack(end.theta, start), end.objective, end.converged, end.trace)


def has_vanishing_noise(at: Parameters, floor: Array) -> bool:
    """Whether the noise is at its floor, or so small that sums with the signal lose it."""
    signal = np.einsum("jq,jq->j", at.W, at.W)
    return bool(np.any(at.psi <= floor * AT_FLOOR) or np.any(signal > LOST_IN_SUMS * at.psi))


def graded_axes(W: Array, noise: Array) -> Array:
    """Rotation (q, q) of z to axes of falling strength W^T Psi^-1 W.

    They make the posterior precisions graded, and those are factorised with small error however
    much the columns differ in size.
    """
    return np.asarray(np.linalg.eigh(W.T @ (W / noise[:, None]))[1][:, ::-1])


# What a fit leaves ------------------------------------------------------------------------------


def data_model(
    parameters: Parameters, units: Units, how: Constraints
) -> tuple[LinearGaussian, tuple[int, ...]]:
    """The density in units of the data, and the features whose noise fell to the floor.

    A lower floor than usual is that of cells with measurement error: to find no other noise is a
    result, not a failure.
    """
    psi = parameters.psi
    at_floor = (psi <= how.floor * AT_FLOOR) & (how.floor >= units.floor(how.noise))
    if how.fixed_noise is not None:  # below the floor too: W is the limit's
        psi, at_floor = np.full(units.d, how.fixed_noise), np.zeros(units.d, dtype=bool)
    model = LinearGaussian(W=parameters.W, mu=parameters.delta, psi=psi)
    model = model.rescaled(units.unit, units.shift).canonical()
    return model, tuple(int(j) for j in np.flatnonzero(at_floor))


def spectrum_of(model: LinearGaussian, sum_w: float) -> Spectrum:
    """The q variances of a model along its axes, and its total variance."""
    _, lam = model.principal_axes()
    total = float(np.sum(model.variances()))
    return Spectrum(lam=lam, total=total, sum_w=sum_w, d=model.d, complete=False)


def pattern_of(
    source: Source, fit: GaussianFit, noise: LearnedNoise, fits_mean: bool
) -> ObservationPattern:
    """Which cells a fit observed, by a sample of rows that is the same at every call.

    The uncertainty of the parameters is computed from it.
    """
    d, q = fit.model.W.shape
    known: Array | float = 0.0
    if source.has_cell_sd:
        known = source.reduce(KnownVariances.of).typical(fit.model.psi)
    of = partial(
        ObservationPattern, observed_w=fit.observed_w, noise=noise, fits_mean=fits_mean, known=known
    )
    if not source.has_missing:
        return of(np.ones((1, d), dtype=bool))
    k = n_patterns(d, q)
    if source.observed().rows <= k:
        every = source.reduce(_Patterns.of)
        return of(every.observed, count=every.weight)
    return of(~np.isnan(source.sample(k, np.random.default_rng(0))))  # heavy rows more often


def n_patterns(d: int, q: int) -> int:
    """Rows whose patterns are kept."""
    k = PATTERN_OPERATIONS / (d * max(q, 1) ** 2)
    return int(np.clip(k, FEWEST_PATTERNS, MOST_PATTERNS))


def rows_of_patterns(source: Source, most: int) -> tuple[Array, Array]:
    """Rows whose patterns are kept, and how often each counts."""
    if source.observed().rows > most:  # heavy rows are drawn more often
        return source.sample(most, np.random.default_rng(0)), np.ones(most)
    table = source.map(_with_weight)
    table = table[table[:, -1] > 0]
    return table[:, :-1], table[:, -1]


def _with_weight(block: Block) -> Array:
    """(c, d + 1) rows and their weights."""
    values = block.values if isinstance(block.values, np.ndarray) else block.values.toarray()
    weight = np.ones(block.n_rows) if block.weight is None else block.weight
    return np.column_stack([values, weight])


@dataclass(frozen=True, eq=False)
class _Patterns:
    """Which cells of every row were observed, and the weight of the row."""

    observed: NDArray[np.bool_]  # (n, d)
    weight: Array  # (n,)

    @classmethod
    def of(cls, block: Block) -> _Patterns:
        weight = np.ones(block.n_rows) if block.weight is None else block.weight
        return cls(block.observed, weight)

    def merge(self, other: Self) -> _Patterns:
        return _Patterns(
            np.concatenate([self.observed, other.observed]),
            np.concatenate([self.weight, other.weight]),
        )
