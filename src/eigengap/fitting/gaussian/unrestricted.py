"""Mean and covariance of a Gaussian without any structure, from rows with gaps.

EM of Dempster, Laird and Rubin (1977), written by the score. With o the seen cells of a row,
r = x_o - mu_o, K = C_oo^-1 and y = K r, both 0 in the gaps, the expected row is mu + C y and its
covariance C - C K C, so that one step is

    mu <- mu + C mean(y) = mu + t,    C <- C + C mean(y y' - K) C - t t'.

PPCA with q = d - 1 has the same maximum, but needs larger matrices and all digits of a sigma2 that
is then the smallest eigenvalue of C. The fit runs on standardised columns. Eigenvalues of C are
kept above FLOOR there, which is the exact M-step under that bound: rows that lie in a plane would
make the likelihood infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log, pi

import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.batched import factorise
from eigengap.fitting.eigen.range import refuse_out_of_range, refuse_tiny_columns
from eigengap.fitting.gaussian.problem import DEFAULT, EMOptions
from eigengap.fitting.optimise.em import Mapped, em
from eigengap.linalg import Array, packed_indices, unpack
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.runtime.memory import require_memory
from eigengap.sources.base import Block, Source
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
    """Maximum likelihood of N(mu, C) given the seen cells of a source."""
    columns = source.reduce(ColumnMoments.of)
    refuse_out_of_range(source, float(np.sum(columns.variance)), fit_mean=True)
    refuse_tiny_columns(source, columns.variance)
    varies = columns.variance > 0.0
    problem = _Problem.of(source, columns, np.flatnonzero(varies))
    if problem.d == 0:
        return problem.constant()
    run = em(
        problem.apply,
        problem.start(),
        tol=options.tol,
        max_iter=options.max_iter,
        cells=float(np.sum(columns.sum_w[varies])),
        is_degenerate=problem.is_degenerate,
        watch=options.watch,
    )
    return problem.finish(run.theta, run.objective, len(run.trace), run.converged)


@dataclass(frozen=True, eq=False)
class ScoreSums:
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
        P = packed[:, None] * (mask[:, i] * mask[:, j]).T  # C_oo, and the identity in the gaps
        P[diagonal] += 1.0 - mask.T
        P = np.ascontiguousarray(P)
        lone = len(mask) == c
        z, log_det = factorise(P, b if lone else np.zeros((d, 1)), passes=EXPECTED_PASSES)
        y = z if lone else unpack(P.T, d)[0] @ b
        count = w if lone else np.array([np.sum(w)])
        K = P @ count
        K[diagonal] -= count @ (1.0 - mask)
        cells = float(count @ np.sum(mask, axis=1))
        distance = float(np.einsum("jc,jc,c->", b, y, w))
        log_likelihood = -0.5 * (cells * log(2.0 * pi) + float(count @ log_det) + distance)
        return cls(y @ w, (y * w) @ y.T, K, log_likelihood)

    def merge(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(
            self.y + other.y,
            self.yy + other.yy,
            self.K + other.K,
            self.log_likelihood + other.log_likelihood,
        )


@dataclass(frozen=True, eq=False)
class _Problem:
    """The fit of the columns that vary, in units of their standard deviations."""

    rows: Source  # of SeenRows
    at: NDArray[np.intp]  # (p,) positions of the columns that vary
    shift: Array  # (d,) of all columns
    unit: Array  # (d,)
    sum_w: float
    observed_w: Array  # (p,)

    @classmethod
    def of(cls, source: Source, columns: ColumnMoments, at: NDArray[np.intp]) -> _Problem:
        p = len(at)
        n = source.n_rows or 0
        require_memory(
            8.0 * (2 * n * p + 4 * p * p), "a covariance under gaps", "fit a sample of the rows"
        )
        unit = np.where(columns.variance > 0.0, np.sqrt(columns.variance), 1.0)
        prepare = partial(_prepared, at=at, shift=columns.mean[at], unit=unit[at])
        return cls(
            rows=source.prepared(prepare),
            at=at,
            shift=columns.mean,
            unit=unit,
            sum_w=source.observed().sum_w,
            observed_w=columns.sum_w[at],
        )

    @property
    def d(self) -> int:
        return len(self.at)

    def start(self) -> Array:
        """Independent columns."""
        return self.pack(np.zeros(self.d), np.eye(self.d))

    def apply(self, theta: Array) -> Mapped:
        """The EM map: one pass over the rows."""
        delta, C = self.unpack(theta)
        of: Callable[[ObservedRows], ScoreSums] = partial(ScoreSums.of, delta=delta, C=C)
        sums = self.rows.reduce(of)
        step = C @ sums.y / self.sum_w
        score = (sums.yy - unpack(sums.K, self.d)) / self.sum_w
        updated = _bounded(C + C @ score @ C - step[:, None] * step)
        moved = _relative(C, updated - C, step)
        return Mapped(self.pack(delta + step, updated), sums.log_likelihood, moved=moved)

    def pack(self, delta: Array, C: Array) -> Array:
        """mu and the Cholesky factor of C, its diagonal by logarithms: any vector is a Gaussian."""
        L = np.linalg.cholesky(C)
        i, j = packed_indices(self.d)
        L[np.diag_indices(self.d)] = np.log(np.diag(L))
        return np.concatenate([delta, L[i, j]])

    def unpack(self, theta: Array) -> tuple[Array, Array]:
        i, j = packed_indices(self.d)
        L = np.zeros((self.d, self.d))
        L[i, j] = theta[self.d :]
        L[np.diag_indices(self.d)] = np.exp(np.clip(np.diag(L), -300.0, 300.0))
        return theta[: self.d], L @ L.T

    def is_degenerate(self, theta: Array) -> bool:
        """Whether rounding may hide what a step gains."""
        return bool(np.linalg.eigvalsh(self.unpack(theta)[1])[0] < 1e3 * FLOOR)

    def finish(
        self, theta: Array, objective: float, n_iter: int, converged: bool
    ) -> UnrestrictedFit:
        delta, C = self.unpack(theta)
        sd = np.sqrt(np.diag(C))
        found, V = np.linalg.eigh(C / sd[:, None] / sd)
        mu, unit = self.shift.copy(), self.unit.copy()
        mu[self.at] += delta * self.unit[self.at]
        unit[self.at] *= sd
        d = len(mu)
        lam, U = np.zeros(d), np.zeros((d, d))
        lam[: self.d] = found[::-1]
        U[self.at, : self.d] = V[:, ::-1]
        constant = np.setdiff1d(np.arange(d), self.at)
        U[constant, np.arange(self.d, d)] = 1.0
        # The density in standardised units, times the Jacobian, cell by cell.
        jacobian = float(self.observed_w @ np.log(self.unit[self.at]))
        return UnrestrictedFit(
            mu=mu,
            unit=unit,
            lam=lam,
            U=U,
            rank=int(np.count_nonzero(found > NEAR * FLOOR)),
            sum_w=self.sum_w,
            log_likelihood=objective - jacobian,
            n_iter=n_iter,
            converged=converged,
        )

    def constant(self) -> UnrestrictedFit:
        """No column varies."""
        d = len(self.shift)
        return UnrestrictedFit(
            self.shift, self.unit, np.zeros(d), np.eye(d), 0, self.sum_w, np.inf, 0, True
        )


def _prepared(block: Block, at: NDArray[np.intp], shift: Array, unit: Array) -> ObservedRows:
    values = np.asarray(block.values, dtype=np.float64)[:, at]
    return prepare_rows(values, block.weight, shift, unit, len(at), observed=block.observed[:, at])


def _relative(C: Array, change: Array, step: Array) -> float:
    """A step as the density feels it, where C is nearly singular too: in units of C's own."""
    inverse = np.linalg.inv(np.linalg.cholesky(C))
    return float(max(np.max(np.abs(inverse @ change @ inverse.T)), np.max(np.abs(inverse @ step))))


def _bounded(C: Array) -> Array:
    """C with its eigenvalues at FLOOR or above."""
    C = (C + C.T) / 2.0
    lam, U = np.linalg.eigh(C)
    return C if lam[0] >= FLOOR else np.asarray((U * np.maximum(lam, FLOOR)) @ U.T)
