"""Online EM: parameters from past rows, by their expected statistics when they were discarded.

The M-step maximises the sum of three expected statistics: those of complete rows, computed anew at
each step from their moments; of the incomplete rows that are still there, computed anew too; and of
past rows, which are not updated (Cappe and Moulines 2009). Each step raises the
log-likelihood of the first two plus the variational free energy of the third,

    E_q[ln p(x, z)] + H(q),   q the posterior of z when the row was discarded,

which the loop guards. Parameter expansion (`statistics.expected.gaussian.expand`) moves the latent
axes, and the statistics of past rows are moved with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log, nan, pi

import numpy as np

from eigengap.fitting.gaussian.column_scale import own_scale
from eigengap.fitting.gaussian.noise import Specification
from eigengap.fitting.gaussian.problem import (
    EMOptions,
    GaussianFit,
    Packing,
    Units,
    data_model,
    has_vanishing_noise,
    spectrum_of,
)
from eigengap.fitting.online.rows import Kept, equivalent_rows, rescaled
from eigengap.fitting.optimise.em import fall, rounding_of
from eigengap.fitting.optimise.loop import LoopState, Step, Trace, iterate
from eigengap.linalg import Array
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.posterior import times_packed
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    in_other_latents,
    in_other_units,
    log_prior,
    maximise,
    times,
)
from eigengap.statistics.moments import ColumnMoments, Moments

STEPS = 10  # of EM, at most, with each chunk that is settled
HASTE = (0.1, 1.2)  # a = 0.1 + 1.2 m^2 where a share m of the cells is missing: docs/streaming.md


@dataclass(frozen=True)
class StreamSpec:
    """The model to fit, in units of the scaled columns, and how."""

    model: Specification
    scale: bool
    options: EMOptions


@dataclass(frozen=True, eq=False)
class StreamUnits:
    """r = (x - shift) / (base common): base is the columns' own size where scale=True."""

    shift: Array  # (d,)
    base: Array  # (d,) standard deviations, or 1
    common: Array  # (d,) makes the columns of size 1
    variance: Array  # (d,) of r

    @classmethod
    def of(
        cls, columns: ColumnMoments, origin: Array, shift: Array, spec: StreamSpec
    ) -> StreamUnits:
        base = np.ones(len(shift))
        if spec.scale:
            fit_mean = spec.model.fit_mean
            base = own_scale(columns.variance, columns.mean + origin, fit_mean=fit_mean)
        variance = (columns.variance + (columns.mean - shift) ** 2) / base**2
        units = Units.of(shift, variance, spec.model.noise, columns.sum_w, columns.n_rows)
        return cls(shift, base, units.unit, units.variance)

    @property
    def unit(self) -> Array:
        return self.base * self.common

    def scaled(self, observed_w: Array, sum_w: float) -> Units:
        """As those of a fit to the scaled columns."""
        return Units(self.shift / self.base, self.common, self.variance, observed_w, sum_w)


@dataclass(frozen=True, eq=False)
class Settled:
    """Incomplete past rows: their expected statistics, and the parameters at the time."""

    units: StreamUnits
    parameters: Parameters
    expected: Expected

    @property
    def q(self) -> int:
        return self.expected.q

    @property
    def sum_w(self) -> float:
        return self.expected.sum_w

    def in_units(self, units: StreamUnits) -> Settled:
        """The same in other units."""
        a = self.units.unit / units.unit
        b = (self.units.shift - units.shift) / units.unit
        now = self.parameters
        return Settled(
            units=units,
            parameters=Parameters(now.W * a[:, None], now.delta * a + b, now.psi * a**2),
            expected=in_other_units(self.expected, a, b),
        )


@dataclass(frozen=True, eq=False)
class Present:
    """Rows that are still there: complete ones by their moments, incomplete ones as they are."""

    units: StreamUnits  # in which to measure them
    observed_w: Array  # (d,) of all rows so far, past and present
    moments: Moments
    kept: Kept


def settled_first(units: StreamUnits, kept: Kept, fit: GaussianFit, spec: StreamSpec) -> Settled:
    """The first chunk: `fit`, in units of the data, is of these rows and complete ones."""
    model = fit.model.rescaled(1.0 / units.unit, -units.shift / units.unit)
    floor = units.scaled(fit.observed_w, fit.sum_w).floor(spec.model.noise)
    first = Parameters(W=model.W, delta=model.mu, psi=np.maximum(model.psi, floor))
    rows = prepare_rows(kept.values, kept.weight, units.shift, units.unit, model.q)
    return Settled(units, first, Expected.of(rows, first))


def settled_next(settled: Settled, present: Present, spec: StreamSpec) -> Settled:
    """A later chunk: the parameters after it, and its rows among the past ones."""
    problem = OnlineProblem.of(settled, present, spec)
    state, _, _ = problem.run(replace(spec.options, max_iter=STEPS, watch=None))
    at, past = problem.parameters(state), problem.statistics(state)
    assert problem.chunk is not None
    chunk = Expected.of(problem.chunk, at)
    return Settled(present.units, at, past.merge(times(chunk, problem.chunk_counts)))


def fit_settled(settled: Settled, present: Present, spec: StreamSpec) -> GaussianFit:
    """The model of all rows so far, in units of the scaled columns where scale=True.

    Its log-likelihood is not known: the statistics of past rows do not determine theirs.
    """
    problem = OnlineProblem.of(settled, present, spec)
    state, trace, converged = problem.run(spec.options)
    model, at_floor = data_model(problem.parameters(state), problem.units, problem.constraints)
    return GaussianFit(
        model=model,
        axes=model.principal_axes()[0],
        spectrum=spectrum_of(model, problem.units.sum_w),
        log_likelihood=nan,
        observed_w=present.observed_w,
        sum_w=problem.units.sum_w,
        converged=converged,
        trace=trace,
        at_floor=at_floor,
    )


@dataclass(frozen=True, eq=False)
class OnlineState(LoopState):
    """Where online EM stands."""

    theta: Array  # (p,) the parameters, packed
    A: Array  # statistics of the past rows, by the current latent axes: see `Expected`
    B: Array
    latent: Array
    log_det: float = 0.0  # of the change of the latent axes so far
    value: float = -inf  # objective of the parameters before


@dataclass(frozen=True, eq=False)
class OnlineProblem:
    """EM with a part of the statistics held."""

    units: Units  # of the scaled columns
    constraints: Constraints
    start: Parameters
    past: Expected  # of past rows, with their weight
    complete: ObservedRows | None
    chunk: ObservedRows | None
    chunk_counts: float  # how often a row of the chunk counts
    log_jacobian: float  # of the rows that are present, as they count

    @classmethod
    def of(cls, settled: Settled, present: Present, spec: StreamSpec) -> OnlineProblem:
        measured, q, moments = present.units, settled.q, present.moments
        settled = settled.in_units(measured)
        before, now = settled.sum_w, present.kept.sum_w
        units = measured.scaled(present.observed_w, moments.sum_w + before + now)
        how = spec.model.constraints(units)
        gamma = _gain(before, now, settled.expected)
        counts = gamma * (before + now) / now if now > 0.0 else 0.0
        psi = settled.parameters.psi if how.fixed_noise is None else how.fixed_noise
        kept, unit = present.kept, measured.unit
        chunk = prepare_rows(kept.values, kept.weight, measured.shift, unit, q)
        cells = counts * chunk.observed + moments.sum_w  # (d,)
        complete = None
        if moments.sum_w > 0.0:
            rows = equivalent_rows(rescaled(moments, measured.shift, unit))
            complete = prepare_rows(rows.values, rows.weight, np.zeros(units.d), None, q)
        return cls(
            units=units,
            constraints=how,
            start=replace(settled.parameters, psi=np.maximum(psi, how.floor)),
            past=times(settled.expected, (1.0 - gamma) * (before + now) / before),
            complete=complete,
            chunk=chunk if now > 0.0 else None,
            chunk_counts=counts,
            log_jacobian=float(cells @ np.log(unit)),
        )

    @cached_property
    def packing(self) -> Packing:
        return Packing(self.units, self.constraints, (self.past.q,))

    def parameters(self, state: OnlineState) -> Parameters:
        return self.packing.unpack(state.theta)[0][0]

    def statistics(self, state: OnlineState) -> Expected:
        """Those of the past rows."""
        return replace(self.past, A=state.A, B=state.B, latent=state.latent)

    def run(self, options: EMOptions) -> tuple[OnlineState, Trace, bool]:
        """Plain EM until no parameter moves by more than tol."""
        past = self.past
        start = OnlineState(self.packing.pack([self.start]), past.A, past.B, past.latent)
        return iterate(
            lambda state: self.step(state, options.tol),
            start,
            max_iter=options.max_iter,
            watch=options.watch,
            tol=options.tol,
        )

    def step(self, state: OnlineState, tol: float) -> Step:
        now, past, how = self.parameters(state), self.statistics(state), self.constraints
        total, value = past, -self.log_jacobian + log_prior(now, how)
        for rows, counts in ((self.complete, 1.0), (self.chunk, self.chunk_counts)):
            if rows is not None:
                part = times(Expected.of(rows, now, STEPS), counts)
                total, value = total.merge(part), value + part.log_likelihood
        value += _free_energy(past, now) - past.sum_w * state.log_det
        value -= _free_energy(self.past, self.start)  # so that it begins with the present rows'
        fell = value < state.value - rounding_of(state.value, total.cells)
        if fell and not has_vanishing_noise(now, how.floor):
            raise fall(state.value, value, total.cells)
        updated, log_det = maximise(total, now, how), state.log_det
        if not how.has_prior:
            mean, root = _expansion(total, how)
            past = in_other_latents(past, mean, root)
            log_det += float(np.sum(np.log(np.diag(root))))
        theta = self.packing.pack([updated])
        change = float(np.max(np.abs(theta - state.theta), initial=0.0))
        after = OnlineState(theta, past.A, past.B, past.latent, log_det, value)
        return Step(after, value, change, done=change <= tol)


def _free_energy(past: Expected, at: Parameters) -> float:
    """E[ln p(x, z)] of past rows; their entropy changes with the latent axes alone."""
    both = np.vstack([at.W.T, at.delta])  # (q + 1, d)
    crossed = 2.0 * past.B - times_packed(past.A, both)
    squares = past.squares - np.einsum("kd,kd->d", both, crossed)
    of_cells = float(past.observed() @ np.log(2.0 * pi * at.psi) + np.sum(squares / at.psi))
    diagonal = np.cumsum(np.arange(1, past.q + 1)) - 1
    of_latents = past.q * past.sum_w * log(2.0 * pi) + float(np.sum(past.latent[diagonal]))
    return -0.5 * (of_cells + of_latents)


def _gain(before: float, now: float, past: Expected) -> float:
    """Weight of a chunk of `now` rows relative to `before` others: (1 + a) / (t + a) of chunks.

    The more is missing, the more the statistics of early rows owe to parameters that were poorer.
    """
    missing = 1.0 - past.cells / (past.sum_w * past.A.shape[1])
    least, more = HASTE
    a = least + more * missing**2
    return float((1.0 + a) * now / (before + (1.0 + a) * now))


def _expansion(total: Expected, how: Constraints) -> tuple[Array, Array]:
    """Where `maximise` has moved the latent axes: z = mean + root z'."""
    mean, V = total.latent_moments()
    if not how.fit_mean:
        mean, V = np.zeros_like(mean), V + np.outer(mean, mean)
    return mean, np.asarray(np.linalg.cholesky(V))
