"""Independent component analysis under whitening: x = mean + B s with independent s.

Scores z are whitened through PCA or PPCA; the rotation R that makes y = R z most non-Gaussian is
found by two methods in turn, because neither serves alone (docs/ica.md has the figures):
FastICA's symmetric fixed point, which is all but Newton's method where sources are independent
and which finds the better optimum from afar; then, once a step no longer gains a factor of three,
L-BFGS on rotations preconditioned by the measured curvature of every pair, because on real
signals the fixed point converges slowly or cycles. First steps are taken on samples of the rows and
in float32; the last ones, and the rule that ends them, on all rows in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.ica import steps as rotation
from eigengap.fitting.optimise.loop import LoopState, Step, Trace, Watch, iterate
from eigengap.linalg import Array, sign_rule
from eigengap.runtime.threads import allowed_threads, one_blas_thread
from eigengap.sources.base import Source
from eigengap.statistics.nonlinearity import LogCosh, Nonlinearity, gaussian_reference
from eigengap.statistics.score_moments import (
    Evaluation,
    Potentials,
    ScoreBlock,
    ScoreMoments,
    ScoreSample,
)

ROWS_A_COMPONENT = 400  # of the first sample: fewer do not determine the angles of all pairs
FIRST_SAMPLE = 4000  # rows of it at least
GROWTH = 6  # rows of one sample, times those of the one before
SHARE = 0.5  # of all rows that a sample has at most
SEEK = 20  # fixed-point steps on the first level before L-BFGS may take over
SLOW = 0.3  # gradient relative to the one before at which the fixed point is left
SAMPLE_TOL = 0.5  # gradient on k rows that is enough, in units of 1 / sqrt(k)
SINGLE_ENOUGH = 1e-6  # gradient down to which float32 scores are trusted
SMALL = 1 << 17  # scores below which float32 gains nothing
HALVINGS = 6  # of a step of L-BFGS that goes too far
OVERSHOOT = 0.5  # slope at the end of a step, relative to that at its start, that is too far
SAMPLE_STEPS = 200  # most steps on a sample
SMALL_WORK = 1e6  # rows times components squared up to which other starts are tried
OTHER_STARTS = 4
CLEARLY = 1e-6  # relative gain of contrast by which another optimum is another
ESCAPES = 3  # how often pairs are rotated out of a saddle
GAUSSIAN = 3.0  # standard errors within which a discrepancy is none, besides those of the choice


@dataclass(frozen=True, eq=False)
class ICAOptions:
    """How the rotation is looked for."""

    fun: Nonlinearity = field(default_factory=LogCosh)
    tol: float = 1e-6  # of the largest entry of the relative gradient, on all rows
    max_iter: int = 200  # steps on all rows
    start: Array | None = None  # (q, q) rotation to start from; None: the principal axes
    on_samples: bool = True  # whether first steps may be on samples
    watch: Watch | None = None


@dataclass(frozen=True, eq=False)
class RotationFit:
    """The rotation that makes scores independent, and how it was reached."""

    R: Array  # (q, q)
    kappa: Array  # (q,) Stein's discrepancy of each component, 0 for a Gaussian
    gaussian: NDArray[np.bool_]  # (q,) whether it lies within sampling error of 0
    gradient: float  # largest entry of the relative gradient, on all rows in float64
    converged: bool
    trace: Trace  # `objective` is sum |kappa|, `change` the gradient's largest entry
    escapes: int  # how often pairs were rotated out of a saddle


def fit_rotation(
    scores: Source, q: int, *, noise: Array | None = None, options: ICAOptions | None = None
) -> RotationFit:
    """The rotation of white scores, a source of `ScoreBlock`s, towards independence.

    noise : (q, q) covariance of the noise in the scores, whose other part is white.
    """
    how = options or ICAOptions()
    threads = allowed_threads()
    with one_blas_thread():  # pieces of rows are spread over threads instead
        problem = _Problem(scores, q, noise, how, threads)
        found = problem.on_all_rows(*problem.on_samples())
        # More starts cost next to nothing where rows are few, and few are where one may go astray.
        n, free = scores.n_rows, how.start is None and noise is None and has_potential(how.fun)
        small = n is not None and q > 1 and n * q**2 <= SMALL_WORK
        return problem.from_other_starts(found) if free and small else found


@dataclass(frozen=True, eq=False)
class Unmixing:
    """Components in their final order and sign."""

    R: Array  # (q, q)
    mixing: Array  # (d, q) columns at sources of variance 1
    order: NDArray[np.intp]  # (q,) of the components as they were found


def in_order(R: Array, dewhitening: Array, kappa: Array) -> Unmixing:
    """Components by the variance that they explain, the largest entry of each column positive.

    dewhitening : (d, q), takes white scores to rows. Components that explain the same (rows that
    were white already) are ordered by how far from Gaussian they are.
    """
    mixing = dewhitening @ R.T
    explained = np.sum(mixing**2, axis=0)
    with np.errstate(divide="ignore"):
        steps = np.round(np.log(explained / explained.max()) * 1e6)
    order = np.lexsort((-np.abs(kappa), -steps))
    mixing = mixing[:, order]
    signs = sign_rule(mixing)
    return Unmixing(R[order] * signs[:, None], mixing * signs, order)


# The search ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Problem:
    """Scores, what is known of their noise, and what is asked."""

    scores: Source
    q: int
    noise: Array | None
    how: ICAOptions
    threads: int

    def on_samples(self) -> tuple[Array, ScoreSample | None]:
        """The rotation that growing samples lead to, and the largest of them."""
        R = np.eye(self.q) if self.how.start is None else rotation.polar(self.how.start)
        n = self.scores.n_rows
        sizes = sample_sizes(n, self.q) if self.how.on_samples else []
        if n is None or not sizes:
            return R, None
        sample = self.scores.reduce(partial(ScoreSample.of, share=sizes[-1] / n))
        if len(sample.Z) < sizes[0] // 2:  # few different rows, none or many of which are drawn
            return R, None
        for level, size in enumerate(sizes):
            block = sample.first(size)
            walk = _Walk(
                problem=self,
                block=block,
                tol=max(SAMPLE_TOL / np.sqrt(len(block.Z)), self.how.tol),
                seek=0 if level else SEEK,
                single=True,
            )
            R = walk.run(R, SAMPLE_STEPS)[0].R
        return R, sample

    def from_other_starts(self, found: RotationFit) -> RotationFit:
        """The best of this and of walks from a few rotations, always the same ones."""
        rng = np.random.default_rng(0)
        best, contrast = found, self._contrast(found.R)
        for _ in range(OTHER_STARTS):
            start = rotation.polar(rng.standard_normal((self.q, self.q)))
            other = self.on_all_rows(start, None)
            reached = self._contrast(other.R)
            if other.converged and reached > contrast * (1.0 + CLEARLY):
                best, contrast = other, reached
        return best

    def on_all_rows(self, R: Array, sample: ScoreSample | None) -> RotationFit:
        n = self.scores.n_rows
        walk = _Walk(
            problem=self,
            block=None,
            tol=self.how.tol,
            seek=SEEK if sample is None else 0,
            single=n is None or n * self.q > SMALL,
        )
        (best, trace, converged), escapes = walk.run(R, self.how.max_iter, self.how.watch), 0
        while escapes < ESCAPES and converged:
            rotated = self._rotated(best.R, sample)
            if rotated is None:
                break
            found = walk.run(rotated, self.how.max_iter, self.how.watch)
            if self._contrast(found[0].R) <= self._contrast(best.R) * (1.0 + 1e-9):
                break
            (best, trace, converged), escapes = found, escapes + 1
        # One more fixed-point step needs no pass, where it was gaining a lot by each.
        polished = converged and not best.by_lbfgs
        return RotationFit(
            R=rotation.fixed_point(best.R, best.at) if polished else best.R,
            kappa=best.at.kappa,
            gaussian=self._gaussian(best),
            gradient=best.at.norm,
            converged=converged,
            trace=trace,
            escapes=escapes,
        )

    def _rotated(self, R: Array, sample: ScoreSample | None) -> Array | None:
        """R with those pairs of components turned that are better so, if there are any."""
        if self.noise is not None or not has_potential(self.how.fun):
            return None
        n = self.scores.n_rows
        if sample is None:
            share = 1.0 if n is None or n <= rotation.ROWS else rotation.ROWS / n
            sample = self.scores.reduce(partial(ScoreSample.of, share=share))
        if len(sample.Z) < rotation.ROWS // 2:
            sample = self.scores.reduce(partial(ScoreSample.of, share=1.0))
        return rotation.rotated_pairs(sample.first(rotation.ROWS), R, self.how.fun)

    def _contrast(self, R: Array) -> float:
        """sum_i |E F(y_i) - E F(nu)| over all rows."""
        fun = self.how.fun
        mean = self.scores.reduce(partial(Potentials.of, R=R, fun=fun)).mean
        return float(np.sum(np.abs(mean - gaussian_reference(fun, 1.0).potential)))

    def noise_at(self, R: Array) -> Array | None:
        return None if self.noise is None else R @ self.noise @ R.T

    def _gaussian(self, best: _Place) -> NDArray[np.bool_]:
        """Components whose discrepancy sampling alone explains.

        The rotation was chosen to make it large: of k Gaussian ones it reaches about sqrt(k) + 2
        standard errors. How many those are is found from above.
        """
        fun = self.how.fun if has_potential(self.how.fun) else LogCosh()
        noise = self.noise_at(best.R)
        variance = np.ones(self.q) if noise is None else 1.0 + np.diag(noise)
        sd = np.array([gaussian_reference(fun, float(v)).discrepancy_sd for v in variance])
        error = sd / np.sqrt(best.sum_w)
        errors = np.abs(best.at.kappa) / error
        few = np.ones(self.q, dtype=bool)
        while True:
            fewer = errors < GAUSSIAN + np.sqrt(np.count_nonzero(few))
            if np.array_equal(fewer, few):
                return few
            few = fewer


def sample_sizes(n: int | None, q: int) -> list[int]:
    """Rows of each sample, growing; none where all rows are few or their number is not known."""
    sizes: list[int] = []
    size = max(FIRST_SAMPLE, ROWS_A_COMPONENT * q)
    while n is not None and size <= SHARE * n:
        sizes.append(size)
        size *= GROWTH
    return sizes


@dataclass(frozen=True, eq=False)
class _Place(LoopState):
    """A rotation, the moments of the scores there, and what L-BFGS remembers of the way."""

    R: Array  # (q, q)
    bits: int  # of the numbers that the moments were computed in
    sum_w: float  # weight of the rows, less where missing values leave them in doubt
    cross: Array
    slope: Array
    spread: Array | None
    steps: Array  # (k, pairs)
    changes: Array  # (k, pairs)
    fixed_steps: int = 0
    by_lbfgs: bool = False

    @cached_property
    def at(self) -> rotation.Slope:
        return rotation.slope_at(ScoreMoments(self.sum_w, self.cross, self.slope, self.spread))


@dataclass(frozen=True, eq=False)
class _Walk:
    """Fixed-point steps, then L-BFGS, on a sample (`block`) or on all rows of the source."""

    problem: _Problem
    block: ScoreBlock | None
    tol: float
    seek: int  # fixed-point steps before L-BFGS may take over
    single: bool  # whether float32 serves while the gradient is large

    def run(
        self, R: Array, max_iter: int, watch: Watch | None = None
    ) -> tuple[_Place, Trace, bool]:
        """Where the walk ended, its trace, and whether it converged."""
        moments = self._moments(R, 32 if self.single else 64, spread=False)
        start = _Place(**moments, **self._no_memory())
        return iterate(self._step, start, max_iter=max_iter, watch=watch)

    def _step(self, place: _Place) -> Step:
        if place.at.norm > self.tol:
            place = self._lbfgs(place) if place.by_lbfgs else self._fixed_point(place)
        return Step(place, place.at.discrepancy, place.at.norm, done=place.at.norm <= self.tol)

    def _fixed_point(self, place: _Place) -> _Place:
        R, taken = rotation.fixed_point(place.R, place.at), place.fixed_steps + 1
        there = replace(place, **self._moments(R, place.bits, spread=False), fixed_steps=taken)
        if there.at.norm > SLOW * place.at.norm and taken > self.seek:
            moments = self._moments(R, there.bits, spread=True)
            there = replace(there, **moments, by_lbfgs=True)
        return there

    def _lbfgs(self, place: _Place) -> _Place:
        """One step along the direction of L-BFGS, shortened while the slope along it turns up.

        The slope and not the contrast decides, so that every step costs one pass and a function
        whose integral is unknown serves too.
        """
        gradient = rotation.above_diagonal(place.at.gradient)
        direction = rotation.descent(place.at, place.steps, place.changes)
        before = float(direction @ gradient)
        length = min(1.0, rotation.LARGEST_ANGLE / float(np.max(np.abs(direction))))
        for _ in range(HALVINGS):
            R = rotation.cayley(length * direction, self.problem.q) @ place.R
            there = replace(place, **self._moments(R, place.bits, spread=True))
            after = float(direction @ rotation.above_diagonal(there.at.gradient))
            if after <= OVERSHOOT * abs(before):
                break
            length *= min(max(before / (before - after), 0.1), 0.7)
        if np.any(there.at.sign != place.at.sign):  # another function from here on
            return replace(there, **self._no_memory())
        change = rotation.above_diagonal(there.at.gradient) - gradient
        steps, changes = rotation.remembered(place.steps, place.changes, length * direction, change)
        return replace(there, steps=steps, changes=changes)

    def _moments(self, R: Array, bits: int, *, spread: bool) -> dict[str, Any]:
        """R and its moments; in float64 once float32 finds the gradient small, on all rows."""
        found = self._evaluated(R, bits, spread)
        enough = max(self.tol, SINGLE_ENOUGH)
        if bits == 32 and self.block is None and rotation.slope_at(found).norm <= enough:
            bits = 64
            found = self._evaluated(R, bits, spread)
        return {"R": R, "bits": bits, **vars(found)}

    def _evaluated(self, R: Array, bits: int, spread: bool) -> ScoreMoments:
        how = Evaluation(
            fun=self.problem.how.fun,
            precision=np.float32 if bits == 32 else np.float64,
            with_spread=spread and self.problem.noise is None,
            threads=self.problem.threads,
        )
        if self.block is None:
            moments = self.problem.scores.reduce(partial(ScoreMoments.of, R=R, how=how))
        else:
            moments = ScoreMoments.of(self.block, R, how)
        return rotation.corrected(moments.mean(), self.problem.noise_at(R))

    def _no_memory(self) -> dict[str, Any]:
        pairs = self.problem.q * (self.problem.q - 1) // 2
        return {"steps": np.empty((0, pairs)), "changes": np.empty((0, pairs))}


def has_potential(fun: Nonlinearity) -> bool:
    return fun.potential(np.zeros((1, 1))) is not None
