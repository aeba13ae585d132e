"""Online EM: parameters from rows that are gone, by what was expected of them when they went.

The M-step maximises the sum of three expected statistics: of complete rows, computed anew at each
step from their moments; of the rows with gaps that are still there, computed anew too; and of those
that are gone, which stay as they were. Steps repeat until they no longer move anything; each is a
step of EM for the log-likelihood of the first two and the expected log-likelihood of the third.
Parameter expansion (`statistics.expected.gaussian.expand`) moves the latent axes, and the
statistics of rows that are gone are moved with them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from eigengap.fitting.gaussian.problem import (
    GaussianFit,
    Noise,
    column_units,
    noise_floor,
    spectrum_of,
)
from eigengap.fitting.online.rows import Kept, equivalent_rows
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.row_posterior import Coefficients
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    in_other_latents,
    in_other_units,
    maximise,
    times,
)
from eigengap.statistics.moments import ColumnMoments, Moments

STEPS = 10  # of EM, at most, with each chunk that is settled
HASTE = (0.1, 1.2)  # a = 0.1 + 1.2 m^2 where a share m of the cells is unseen: docs/streaming.md


@dataclass(frozen=True)
class Asked:
    """The model asked for; noise_variance and loading_precision in units of the scaled columns."""

    noise: Noise
    noise_variance: float | None
    fit_mean: bool
    loading_precision: float
    scale: bool
    tol: float
    max_iter: int


@dataclass(frozen=True, eq=False)
class Units:
    """r = (x - shift) / (base common): base is the columns' own size where scale=True."""

    shift: Array  # (d,)
    base: Array  # (d,) standard deviations, or 1
    common: Array  # (d,) makes the columns of size 1
    variance: Array  # (d,) of r

    @classmethod
    def of(cls, columns: ColumnMoments, shift: Array, asked: Asked) -> Units:
        own = np.where(columns.variance > 0, np.sqrt(columns.variance), 1.0)
        base = own if asked.scale else np.ones(len(shift))
        variance = (columns.variance + (columns.mean - shift) ** 2) / base**2
        common = column_units(variance, asked.noise)
        return cls(shift, base, common, variance / common**2)

    @property
    def unit(self) -> Array:
        return self.base * self.common

    def constraints(self, asked: Asked) -> Constraints:
        scaled = float(self.common[0]) if asked.noise == "isotropic" else 1.0
        fixed = None if asked.noise_variance is None else asked.noise_variance / scaled**2
        return Constraints(
            noise=asked.noise,
            floor=np.full(len(self.shift), noise_floor(self.variance, asked.noise)),
            fixed_noise=fixed,
            fit_mean=asked.fit_mean,
            loading_precision=asked.loading_precision * scaled**2,
        )


@dataclass(frozen=True, eq=False)
class Settled:
    """Rows with gaps that are gone: what was expected of them, and the parameters by then."""

    units: Units
    parameters: Parameters
    expected: Expected

    @property
    def q(self) -> int:
        return self.expected.q

    @property
    def sum_w(self) -> float:
        return self.expected.sum_w

    def in_units(self, units: Units) -> Settled:
        """The same, measured anew."""
        a = self.units.unit / units.unit
        b = (self.units.shift - units.shift) / units.unit
        now = self.parameters
        parameters = Parameters(W=now.W * a[:, None], delta=now.delta * a + b, psi=now.psi * a**2)
        return replace(
            self,
            units=units,
            parameters=parameters,
            expected=in_other_units(self.expected, a, b),
        )


@dataclass(frozen=True, eq=False)
class There:
    """Rows that are there: complete ones by their moments, those with gaps as they are."""

    units: Units  # in which to measure them
    moments: Moments
    kept: Kept


def settled_first(units: Units, kept: Kept, fit: GaussianFit, asked: Asked) -> Settled:
    """The first chunk: `fit`, in units of the data, is of these rows and complete ones."""
    model = fit.model.rescaled(1.0 / units.unit, -units.shift / units.unit)
    how = units.constraints(asked)
    first = Parameters(W=model.W, delta=model.mu, psi=np.maximum(model.psi, how.floor))
    rows = _prepared(kept, units, fit.model.q)
    expected = Expected.of(rows, _coefficients(first))
    return Settled(units, first, expected)


def settled_next(settled: Settled, there: There, asked: Asked) -> Settled:
    """A later chunk: the parameters after it, and its rows among those that are gone."""
    run = _Run.of(settled, there, asked).repeated(asked.tol, STEPS)
    assert run.chunk is not None
    chunk = Expected.of(run.chunk, _coefficients(run.parameters))
    return Settled(
        units=run.units,
        parameters=run.parameters,
        expected=run.gone.merge(times(chunk, run.chunk_counts)),
    )


def fit_settled(settled: Settled, there: There, observed_w: Array, asked: Asked) -> GaussianFit:
    """The model of all rows so far, in units of the scaled columns where scale=True.

    Its log-likelihood is not known: that of rows that are gone cannot be had from their statistics.
    """
    run = _Run.of(settled, there, asked).repeated(asked.tol, asked.max_iter)
    units, now, how = run.units, run.parameters, run.how
    at_floor = np.flatnonzero(now.psi <= how.floor * (1 + 1e-3))
    model = LinearGaussian(W=now.W, mu=now.delta, psi=now.psi)
    if how.fixed_noise is not None:  # below the floor too
        model, at_floor = replace(model, psi=np.full(model.d, how.fixed_noise)), at_floor[:0]
    model = model.rescaled(units.common, units.shift / units.base).canonical()
    sum_w = there.moments.sum_w + settled.sum_w + there.kept.sum_w
    return GaussianFit(
        model=model,
        axes=model.principal_axes()[0],
        spectrum=spectrum_of(model, sum_w),
        log_likelihood=nan,
        observed_w=observed_w,
        sum_w=sum_w,
        converged=run.converged,
        trace=run.trace,
        at_floor=tuple(int(j) for j in at_floor),
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """EM with a part of the statistics held."""

    units: Units
    how: Constraints
    parameters: Parameters
    gone: Expected  # rows that are gone, counted as they are to count
    complete: ObservedRows | None
    chunk: ObservedRows | None
    chunk_counts: float  # how often a row of the chunk counts
    trace: Trace
    converged: bool = False

    @classmethod
    def of(cls, settled: Settled, there: There, asked: Asked) -> _Run:
        units, q = there.units, settled.q
        settled = settled.in_units(units)
        before, now = settled.sum_w, there.kept.sum_w
        gamma = _gain(before, now, settled.expected)
        how = units.constraints(asked)
        start = settled.parameters
        return cls(
            units=units,
            how=how,
            parameters=replace(start, psi=_allowed(start.psi, how)),
            gone=times(settled.expected, (1.0 - gamma) * (before + now) / before),
            complete=_complete(there.moments, units, q) if there.moments.sum_w > 0.0 else None,
            chunk=_prepared(there.kept, units, q) if now > 0.0 else None,
            chunk_counts=gamma * (before + now) / now if now > 0.0 else 0.0,
            trace=Trace(),
        )

    def repeated(self, tol: float, most: int) -> _Run:
        """Steps until none moves anything by more than tol."""
        run = self
        objective, change, seconds = [], [], []
        began = time.perf_counter()
        for _ in range(most):
            run, value, moved = run._step()
            objective.append(value)
            change.append(moved)
            seconds.append(time.perf_counter() - began)
            if moved <= tol:
                break
        trace = Trace(np.array(objective), np.array(change), np.array(seconds))
        return replace(run, trace=trace, converged=bool(change[-1] <= tol))

    def _step(self) -> tuple[_Run, float, float]:
        """One step, the log-likelihood before it, and how far it went."""
        now = self.parameters
        total = self.gone
        parts = self._parts()
        for part, counts in parts:
            total = total.merge(times(part, counts))
        updated = maximise(total, now, self.how)
        gone = self.gone
        if not self.how.has_prior:
            gone = in_other_latents(gone, *_expansion(total, self.how))
        run = replace(self, parameters=updated, gone=gone)
        return run, self._sum(parts), _change(now, updated, self.units)

    def _parts(self) -> list[tuple[Expected, float]]:
        """What is expected of the rows that are there, and how often each counts."""
        coefficients = _coefficients(self.parameters)
        there = ((self.complete, 1.0), (self.chunk, self.chunk_counts))
        return [
            (Expected.of(rows, coefficients, STEPS), counts)
            for rows, counts in there
            if rows is not None
        ]

    def _sum(self, parts: list[tuple[Expected, float]]) -> float:
        return float(sum(_in_data_units(part, self.units) for part, _ in parts))


def _gain(before: float, now: float, gone: Expected) -> float:
    """Weight of a chunk of `now` rows beside `before` others: (1 + a) / (t + a) of equal chunks.

    The more is missing, the more the statistics of early rows owe to parameters that were poorer.
    """
    missing = 1.0 - gone.cells / (gone.sum_w * gone.A.shape[1])
    least, more = HASTE
    a = least + more * missing**2
    return float((1.0 + a) * now / (before + (1.0 + a) * now))


def _coefficients(now: Parameters) -> Coefficients:
    return Coefficients(now.W, now.delta, now.psi)


def _prepared(kept: Kept, units: Units, q: int) -> ObservedRows:
    return prepare_rows(kept.values, kept.weight, units.shift, units.unit, q)


def _complete(moments: Moments, units: Units, q: int) -> ObservedRows:
    measured = replace(
        moments,
        mean=(moments.mean - units.shift) / units.unit,
        scatter=moments.scatter / units.unit / units.unit[:, None],
    )
    rows = equivalent_rows(measured)
    return prepare_rows(rows.values, rows.weight, np.zeros(len(units.shift)), None, q)


def _allowed(psi: Array, how: Constraints) -> Array:
    if how.fixed_noise is not None:
        psi = np.full(len(psi), how.fixed_noise)
    return np.asarray(np.maximum(psi, how.floor))


def _in_data_units(expected: Expected, units: Units) -> float:
    """The log-likelihood of rows in these units, as one of the data."""
    return expected.log_likelihood - float(expected.observed() @ np.log(units.unit))


def _expansion(total: Expected, how: Constraints) -> tuple[Array, Array]:
    """Where `maximise` has moved the latent axes: z = mean + root z'."""
    mean, V = total.latent_moments()
    if not how.fit_mean:
        mean, V = np.zeros_like(mean), V + np.outer(mean, mean)
    return mean, np.asarray(np.linalg.cholesky(V))


def _change(now: Parameters, updated: Parameters, units: Units) -> float:
    """Largest move of a parameter, in units of its column's standard deviation."""
    size = np.where(units.variance > 0, np.sqrt(units.variance), 1.0)
    moves: Sequence[Array] = (
        (updated.W - now.W) / size[:, None],
        (updated.delta - now.delta) / size,
        np.log(updated.psi / now.psi),
    )
    return max(float(np.max(np.abs(move), initial=0.0)) for move in moves)
