"""Mean and covariance of a Gaussian without any structure, from incomplete rows.

EM of Dempster, Laird and Rubin (1977), written by the score. With o the observed cells of a row,
r = x_o - mu_o, K = C_oo^-1 and y = K r, both 0 where a value is missing, the expected row is
mu + C y and its covariance C - C K C, so that one step is

    mu <- mu + C mean(y) = mu + t,    C <- C + C mean(y y' - K) C - t t'.

PPCA with q = d - 1 has the same maximum, but needs larger matrices and all digits of a sigma2 that
is then the smallest eigenvalue of C. The fit runs on standardised columns. Eigenvalues of C are
kept above FLOOR there, which is the exact M-step under that bound: rows that lie in a plane would
make the likelihood infinite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import log, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigengap.compiled import factorise
from eigengap.fitting.gaussian.problem import (
    DEFAULT,
    EMOptions,
    Problem,
    Run,
    Units,
    column_moments,
)
from eigengap.fitting.optimise.em import Mapped
from eigengap.linalg import Array, packed_indices, unpack
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.runtime.memory import require_memory
from eigengap.sources.base import Block, Source
from eigengap.statistics.additive import Additive
from eigengap.statistics.moments import ColumnMoments

FLOOR = 1e-8  # least eigenvalue of the correlations
NEAR = 2.0  # times the floor: an eigenvalue that fell to it
EXPECTED_PASSES = 50


@dataclass(frozen=True, eq=False)
class UnrestrictedFit:
    """N(mu, C) with C = D (sum_k lam_k u_k u_k') D, D = diag(unit)."""

    mu: Array  # (d,)
    unit: Array  # (d,) standard deviations of the fit; 1 for a constant column
    lam: Array  # (d,) eigenvalues of the correlations, descending
    U: Array  # (d, d)
    rank: int  # eigenvalues that are not at the floor
    sum_w: float
    log_likelihood: float  # of all rows, weighted
    n_iter: int
    converged: bool

    def root(self) -> Array:
        """F (d, d) with F F' = C: its singular values are those of C without squaring."""
        return np.asarray(self.unit[:, None] * self.U * np.sqrt(self.lam))

    def model(self) -> LinearGaussian:
        """The same density as a value: the last eigenvalue is the noise."""
        sigma2 = float(self.lam[-1])
        W = self.U[:, :-1] * np.sqrt(np.maximum(self.lam[:-1] - sigma2, 0.0))
        standard = LinearGaussian(W=W, mu=np.zeros(len(self.mu)), psi=np.full(len(W), sigma2))
        return standard.rescaled(self.unit, self.mu)


def fit_unrestricted(source: Source, options: EMOptions = DEFAULT) -> UnrestrictedFit:
    """Maximum likelihood of N(mu, C) given the observed cells of a source."""
    columns = column_moments(source, "diagonal")
    problem = _Problem.of(source, columns)
    if problem.units.d == 0:  # no column varies
        d = len(columns.mean)
        zero, one, sum_w = np.zeros(d), np.ones(d), problem.units.sum_w
        return UnrestrictedFit(columns.mean, one, zero, np.eye(d), 0, sum_w, np.inf, 0, True)
    d = problem.units.d
    independent = NormalParameters(np.zeros(d), np.eye(d))
    return problem.finish(problem.run(independent, options), columns.mean)


@dataclass(frozen=True, eq=False)
class ScoreSums(Additive):
    """Sums over rows of y, y y', K and of the log-likelihood."""

    y: Array  # (d,)
    yy: Array  # (d, d)
    K: Array  # (d (d + 1) / 2,) packed
    log_likelihood: float

    @classmethod
    def of(cls, rows: ObservedRows, delta: Array, C: Array) -> ScoreSums:
        d = rows.d
        i, j = packed_indices(d)
        packed = C[i, j]
        sums = cls(np.zeros(d), np.zeros((d, d)), np.zeros(len(packed)), 0.0)
        for chunk in rows.chunks(d):
            mask = chunk.mask()  # (u, d), u = 1 where the rows share their pattern
            w = np.ones(len(chunk.at)) if chunk.weight is None else chunk.weight
            b = np.ascontiguousarray((mask * (chunk.values() - delta)).T)  # (d, c)
            sums = sums.merge(cls._of_chunk(packed, mask, b, w))
        return sums

    @classmethod
    def _of_chunk(cls, packed: Array, mask: Array, b: Array, w: Array) -> ScoreSums:
        d, c = b.shape
        i, j = packed_indices(d)
        diagonal = np.flatnonzero(i == j)
        P = packed[:, None] * (mask[:, i] * mask[:, j]).T  # C_oo, and the identity where missing
        P[diagonal] += 1.0 - mask.T
        P = np.ascontiguousarray(P)
        is_unique = len(mask) == c  # every row has its own pattern
        z, log_det = factorise(P, b if is_unique else np.zeros((d, 1)), passes=EXPECTED_PASSES)
        y = z if is_unique else unpack(P.T, d)[0] @ b
        count = w if is_unique else np.array([np.sum(w)])
        K = P @ count
        K[diagonal] -= count @ (1.0 - mask)
        cells = float(count @ np.sum(mask, axis=1))
        distance = float(np.einsum("jc,jc,c->", b, y, w))
        log_likelihood = -0.5 * (cells * log(2.0 * pi) + float(count @ log_det) + distance)
        return cls(y @ w, (y * w) @ y.T, K, log_likelihood)


class NormalParameters(NamedTuple):
    """Mean (d,), measured from the shift, and covariance (d, d)."""

    delta: Array
    C: Array


@dataclass(frozen=True, eq=False)
class _Problem(Problem[NormalParameters]):
    """The fit of the columns that vary, in units of their standard deviations."""

    rows: Source  # of ObservedRows
    units: Units  # of the columns that vary
    at: NDArray[np.intp]  # (p,) their positions

    @classmethod
    def of(cls, source: Source, columns: ColumnMoments) -> _Problem:
        at = np.flatnonzero(columns.variance > 0.0)
        n, p = source.n_rows or 0, len(at)
        require_memory(
            8.0 * (2 * n * p + 4 * p * p),
            "the covariance of incomplete rows",
            "fit a sample of the rows",
        )
        variance = columns.variance[at]
        units = Units(
            shift=columns.mean[at],
            unit=np.sqrt(variance),
            variance=np.ones(p),
            observed_w=columns.sum_w[at],
            sum_w=source.observed().sum_w,
        )
        return cls(source.prepared(partial(_prepared, at=at, units=units)), units, at)

    def apply(self, theta: Array, like: NormalParameters, passes: int = 1) -> Mapped:
        delta, C = self.unpack(theta, like)
        sums = self.rows.reduce(partial(ScoreSums.of, delta=delta, C=C))
        step = C @ sums.y / self.units.sum_w
        score = (sums.yy - unpack(sums.K, self.units.d)) / self.units.sum_w
        updated = _bounded(C + C @ score @ C - step[:, None] * step)
        moved = _relative(C, updated - C, step)
        return Mapped(
            self.pack(NormalParameters(delta + step, updated)), sums.log_likelihood, moved=moved
        )

    def pack(self, parameters: NormalParameters) -> Array:
        """mu and the Cholesky factor of C, its diagonal by logarithms: any vector is a Gaussian."""
        L = np.linalg.cholesky(parameters.C)
        L[np.diag_indices_from(L)] = np.log(np.diag(L))
        return np.concatenate([parameters.delta, L[packed_indices(len(L))]])

    def unpack(self, theta: Array, like: NormalParameters) -> NormalParameters:
        d = self.units.d
        L = np.zeros((d, d))
        L[packed_indices(d)] = theta[d:]
        L[np.diag_indices(d)] = np.exp(np.clip(np.diag(L), -300.0, 300.0))
        return NormalParameters(theta[:d], L @ L.T)

    def is_degenerate(self, theta: Array, like: NormalParameters) -> bool:
        """Whether rounding may hide what a step gains."""
        return bool(np.linalg.eigvalsh(self.unpack(theta, like).C)[0] < 1e3 * FLOOR)

    def finish(self, run: Run[NormalParameters], mean: Array) -> UnrestrictedFit:
        """The fit of all columns; `mean` (d,) has that of constant ones."""
        (delta, C), units = run.parameters, self.units
        sd = np.sqrt(np.diag(C))
        found, V = np.linalg.eigh(C / sd[:, None] / sd)
        mu, unit = mean.copy(), np.ones(len(mean))
        mu[self.at] += delta * units.unit
        unit[self.at] = units.unit * sd
        d, p = len(mu), units.d
        lam, U = np.zeros(d), np.zeros((d, d))
        lam[:p] = found[::-1]
        U[self.at, :p] = V[:, ::-1]
        constant = np.setdiff1d(np.arange(d), self.at)
        U[constant, np.arange(p, d)] = 1.0
        return UnrestrictedFit(
            mu=mu,
            unit=unit,
            lam=lam,
            U=U,
            rank=int(np.count_nonzero(found > NEAR * FLOOR)),
            sum_w=units.sum_w,
            log_likelihood=run.objective - units.log_jacobian,
            n_iter=len(run.trace),
            converged=run.converged,
        )


def _prepared(block: Block, at: NDArray[np.intp], units: Units) -> ObservedRows:
    values = np.asarray(block.values, dtype=np.float64)[:, at]
    return units.prepare(replace(block, values=values), len(at))


def _relative(C: Array, change: Array, step: Array) -> float:
    """Size of a step in units of C's own, which hold where C is nearly singular too."""
    inverse = np.linalg.inv(np.linalg.cholesky(C))
    return float(max(np.max(np.abs(inverse @ change @ inverse.T)), np.max(np.abs(inverse @ step))))


def _bounded(C: Array) -> Array:
    """C with its eigenvalues at FLOOR or above."""
    C = (C + C.T) / 2.0
    lam, U = np.linalg.eigh(C)
    return C if lam[0] >= FLOOR else np.asarray((U * np.maximum(lam, FLOOR)) @ U.T)
