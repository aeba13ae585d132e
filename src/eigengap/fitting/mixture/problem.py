"""The EM map of a mixture of linear-Gaussian models, from rows with gaps.

The fit runs in units in which the columns are of size 1, measured from the column means, as that of
a single model does. Under `ard` every column of every W has a Gaussian prior whose precision is
learned along (Bishop 1999, "Bayesian PCA"): with alpha_c = d / (|w_c|^2 + SMALL) the EM map raises

    log-likelihood - d/2 sum_c ln(|w_c|^2 + SMALL),

for the penalty is concave in |w_c|^2 and lies below its tangent. A column that explains no more
than noise would goes to zero, cubically in the end. On complete data with n rows and sigma2 = 1 one
stays if the sample has variance at least 1 + 2 g + 2 sqrt(g (1 + g)), g = d / n, along it: just
above the edge of the spectrum of pure noise, (1 + sqrt(g))^2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.gaussian.problem import FLOOR, LARGEST_RATIO, SNAP_BELOW, Noise, column_units
from eigengap.fitting.optimise.climb import Bounds, Slope, loading_scale
from eigengap.fitting.optimise.em import EMResult, Mapped, em
from eigengap.fitting.optimise.loop import Progress, Trace, Watch, checkpointer_of
from eigengap.linalg import Array
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.row_posterior import Coefficients
from eigengap.sources.base import Block, Source
from eigengap.statistics.expected.maximise import Constraints, Parameters, gradient
from eigengap.statistics.expected.mixture_expected import MixtureExpected
from eigengap.statistics.expected.mixture_maximise import MixtureParameters, maximise_mixture
from eigengap.statistics.moments import ColumnMoments

# Fewer rows than this, by responsibility, are no component; nor are q + 1 rows and half a one whose
# noise has gone, for a plane goes through any q + 1 points.
LEAST_ROWS = 1.5

VANISHING = 1e-5  # of the variance of a column: noise at which rounding may outweigh a step

SMALL = 1e-8  # squared length of a column of W, in the fit's units, that counts as zero

LEAST_SHARE = 1e-6  # of the rows, that show a feature of a component: less has no scale

MOST_PASSES = 50  # that are promised to the compiled kernel


class _Observed:
    """Remembers the progress of a run: what is left of one that could not be ended."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch
        self.checkpointer = checkpointer_of(watch)
        self._steps: list[Progress] = []

    def __call__(self, step: Progress) -> None:
        self._steps.append(step)
        if self._watch is not None:
            self._watch(step)

    def before(self, fell: ObjectiveFellError) -> EMResult | None:
        """The run as it was before its objective fell, if it had begun."""
        if fell.top is None or not np.isfinite(fell.top_value):
            return None
        facts = [(step.objective, step.change, step.seconds) for step in self._steps]
        trace = Trace(*np.array(facts).reshape(-1, 3).T)
        return EMResult(fell.top, fell.top_value, converged=False, trace=trace)


class DeadComponentError(np.linalg.LinAlgError):
    """A component has lost its rows, or has collapsed onto as few as it can fit exactly."""

    def __init__(self, k: int, at: MixtureParameters) -> None:
        super().__init__(f"component {k} has died")
        self.k = k
        self.at = at


@dataclass(frozen=True, eq=False)
class Run:
    """Where EM went from one start."""

    parameters: MixtureParameters
    objective: float
    converged: bool
    trace: Trace  # seconds since the fit began

    def continued(self, later: Run) -> Run:
        """One run after the other, as one."""
        a, b = self.trace, later.trace
        # A run that was kept from an earlier process has the seconds of that one.
        late = max(a.seconds[-1] - b.seconds[0], 0.0) if len(a) and len(b) else 0.0
        trace = Trace(
            np.concatenate([a.objective, b.objective]),
            np.concatenate([a.change, b.change]),
            np.concatenate([a.seconds, b.seconds + late]),
        )
        return replace(later, trace=trace)


@dataclass(frozen=True, eq=False)
class MixtureProblem:
    """The fit in its own units: r = (x - shift) / unit."""

    rows: Source  # of SeenRows
    shift: Array  # (d,)
    unit: Array  # (d,)
    variance: Array  # (d,) of r
    observed_w: Array  # (d,) weighted number of rows in which each feature was seen
    sum_w: float
    noise: Noise
    shared_noise: bool
    floor: Array  # (d,) least noise variance
    began: float  # when, by the clock

    @classmethod
    def of(
        cls, source: Source, columns: ColumnMoments, q: int, noise: Noise, shared_noise: bool
    ) -> MixtureProblem:
        """q is the largest rank, which decides how rows are arranged."""
        unit = column_units(columns.variance, noise)
        variance = columns.variance / unit**2
        return cls(
            rows=source.prepared(partial(_prepare, shift=columns.mean, unit=unit, q=q)),
            shift=columns.mean,
            unit=unit,
            variance=variance,
            observed_w=columns.sum_w,
            sum_w=source.observed().sum_w,
            noise=noise,
            shared_noise=shared_noise,
            floor=least_noise(variance, noise),
            began=perf_counter(),
        )

    @property
    def d(self) -> int:
        return len(self.unit)

    @property
    def cells(self) -> float:
        return float(np.sum(self.observed_w))

    def constraints(self) -> Constraints:
        return Constraints(noise=self.noise, floor=self.floor)

    # The map --------------------------------------------------------------------------------

    def run(
        self,
        start: MixtureParameters,
        *,
        tol: float,
        max_iter: int,
        watch: Watch | None = None,
        ard: bool = False,
        jumps: bool = False,
    ) -> Run:
        """EM from a start until neither the parameters nor the objective move.

        `jumps` help at the end of a fit; before it they may put a noise variance to the floor that
        would have come back when the components had found their places.
        Raises DeadComponentError where a component dies on the way.
        """
        before = perf_counter() - self.began
        start = self._admitted(start)
        ranks = start.ranks
        observed = _Observed(watch)
        try:
            result = em(
                partial(self._apply, ranks=ranks, ard=ard, passes=min(max_iter, MOST_PASSES)),
                self.pack(start),
                tol=tol,
                max_iter=max_iter,
                cells=self.cells,
                bounds=self._bounds(ranks),
                boundary_step=partial(self._jump, ranks=ranks) if jumps else None,
                watch=observed,
            )
        except ObjectiveFellError as fell:
            left = observed.before(fell)
            if left is None:
                raise
            reached = self.unpack(left.theta, ranks)
            # On hardly more rows than it has directions noise goes, and rounding tells first.
            few = self._on_few_rows(reached)
            if len(few):
                raise DeadComponentError(int(few[0]), reached) from fell
            if not (self.reached_floor(reached).any() or _vanishing(reached).any()):
                raise
            result = left
            # Where noise has gone, rounding is larger than what is left to gain: that is the end.
        trace = replace(result.trace, seconds=result.trace.seconds + before)
        return Run(self.unpack(result.theta, ranks), result.objective, result.converged, trace)

    def reached_floor(self, parameters: MixtureParameters) -> NDArray[np.bool_]:
        """(K,) components with a noise variance at the floor."""
        at_floor = [np.any(c.psi <= self.floor * (1 + 1e-3)) for c in parameters.components]
        return np.array(at_floor)

    def _on_few_rows(self, parameters: MixtureParameters) -> NDArray[np.intp]:
        """Components, of several, that have hardly more rows than they can fit exactly."""
        sum_w = np.asarray(self.expected(parameters).sum_w())
        enough = np.array([c.W.shape[1] + LEAST_ROWS for c in parameters.components])
        return np.flatnonzero((sum_w < enough) & (parameters.K > 1))

    def _admitted(self, start: MixtureParameters) -> MixtureParameters:
        """A start that obeys the constraints: one noise for all where it is shared."""
        if not self.shared_noise:
            return start
        shared = np.exp(start.log_weights) @ np.stack([c.psi for c in start.components])
        return replace(start, components=tuple(replace(c, psi=shared) for c in start.components))

    def expected(self, parameters: MixtureParameters, passes: int = 1) -> MixtureExpected:
        """The E-step: one pass over the rows."""
        coefficients = [Coefficients.of(c.W, c.delta, c.psi) for c in parameters.components]
        of: Callable[[ObservedRows], MixtureExpected] = partial(
            MixtureExpected.of,
            log_weights=parameters.log_weights,
            coefficients=coefficients,
            passes=passes,
        )
        return self.rows.reduce(of)

    def _apply(self, theta: Array, ranks: Sequence[int], ard: bool, passes: int) -> Mapped:
        current = self.unpack(theta, ranks)
        turns = [np.eye(c.W.shape[1]) if ard else _graded(c) for c in current.components]
        turned = _turned(current, turns)
        expected = self.expected(turned, passes)
        how = [self._how(c, ard) for c in turned.components]
        _refuse_dead(expected, current, self.reached_floor(current))
        updated = maximise_mixture(expected, turned, how, self.shared_noise)
        updated = _turned(updated, [turn.T for turn in turns])
        objective = expected.log_likelihood - (self._penalty(current) if ard else 0.0)

        def slope() -> Slope:
            by = [
                gradient(*each)
                for each in zip(expected.components, turned.components, how, strict=True)
            ]
            by = [replace(b, W=b.W @ turn.T) for b, turn in zip(by, turns, strict=True)]
            return self._slope(current, by, expected)

        return Mapped(self.pack(updated), objective, slope)

    def _slope(
        self, at: MixtureParameters, by: Sequence[Parameters], expected: MixtureExpected
    ) -> Slope:
        """The derivatives by the entries of theta, and their scale, from those by parameters."""
        size, cells = self._size(), self.cells
        observed = np.stack([e.observed() for e in expected.components])
        share = np.maximum(observed, LEAST_SHARE * self.sum_w) / cells  # (K, d) of the cells
        pairs = list(zip(at.components, by, strict=True))
        scales = [
            loading_scale(c.W, c.psi, own) / size
            for c, own in zip(at.components, share, strict=True)
        ]
        by_noise, information = np.stack([b.psi * c.psi for c, b in pairs]), share / 2.0  # (K, d)
        if self.shared_noise:
            by_noise, information = by_noise.sum(axis=0), information.sum(axis=0)
        if self.noise == "isotropic":
            by_noise, information = by_noise.sum(axis=-1), information.sum(axis=-1)
        weights = np.exp(at.log_weights)
        gradients = [
            *((b.W * size[:, None]).ravel() for b in by),
            *(b.delta * size for b in by),
            expected.sum_w() - weights * self.sum_w,
            np.ravel(by_noise),
        ]
        natural = [
            *(np.repeat(own, c.W.shape[1]) for c, own in zip(at.components, scales, strict=True)),
            *scales,
            np.sqrt(cells / (self.sum_w * weights)),
            1.0 / np.sqrt(np.ravel(information)),
        ]
        return Slope(np.concatenate(gradients) / cells, np.concatenate(natural))

    def _bounds(self, ranks: Sequence[int]) -> Bounds:
        """The floor of the noise."""
        K, width = len(ranks), 1 if self.noise == "isotropic" else self.d
        floor = np.tile(np.log(self.floor[:width]), 1 if self.shared_noise else K)
        free = self.d * sum(ranks) + K * self.d + K
        bounds = Bounds.none(free + len(floor))
        bounds.lower[free:] = floor
        return bounds

    def _how(self, component: Parameters, ard: bool) -> Constraints:
        if not ard:
            return self.constraints()
        precision = self.d / (np.sum(component.W**2, axis=0) + SMALL)
        return replace(self.constraints(), loading_precision=precision)

    def _penalty(self, parameters: MixtureParameters) -> float:
        lengths = [np.sum(c.W**2, axis=0) for c in parameters.components]
        return 0.5 * self.d * float(np.sum(np.log(np.concatenate(lengths) + SMALL)))

    def _jump(self, theta: Array, image: Array, ranks: Sequence[int]) -> Array | None:
        """Small, falling noise variances put at the floor: EM crawls there (Heywood cases)."""
        components = self.unpack(image, ranks).components
        variance = np.stack([np.sum(c.W**2, axis=1) + c.psi for c in components])  # (K, d)
        small = np.log(SNAP_BELOW * (variance.min(axis=0) if self.shared_noise else variance))
        size = small.size
        small, noise = small.ravel(), image[-size:]
        floor = np.resize(np.log(self.floor), size)
        crawling = (noise < small) & (noise > floor + 1e-3) & (noise < theta[-size:])
        if not crawling.any():
            return None
        return np.concatenate([image[:-size], np.where(crawling, floor, noise)])

    # Parameters as one vector, each coordinate of size about 1 ----------------------------------

    def pack(self, parameters: MixtureParameters) -> Array:
        size = self._size()[:, None]
        loadings = [(c.W / size).ravel() for c in parameters.components]
        means = [c.delta / size[:, 0] for c in parameters.components]
        kept = parameters.components[:1] if self.shared_noise else parameters.components
        width = 1 if self.noise == "isotropic" else self.d
        noise = [np.log(c.psi[:width]) for c in kept]
        return np.concatenate([*loadings, *means, parameters.log_weights, *noise])

    def unpack(self, theta: Array, ranks: Sequence[int]) -> MixtureParameters:
        d, K, size = self.d, len(ranks), self._size()
        ends = np.cumsum((0, *(d * q for q in ranks), K * d, K))
        means = theta[ends[K] : ends[K + 1]].reshape(K, d) * size
        log_weights = theta[ends[K + 1] : ends[K + 2]]
        log_psi = theta[ends[K + 2] :].reshape(1 if self.shared_noise else K, -1)
        psi = np.broadcast_to(np.exp(np.clip(log_psi, -700.0, 700.0)), (K, d))
        components = [
            Parameters(
                W=theta[ends[k] : ends[k + 1]].reshape(d, q) * size[:, None],
                delta=means[k],
                psi=np.maximum(psi[k], self.floor),
            )
            for k, q in enumerate(ranks)
        ]
        return MixtureParameters(log_weights - np.logaddexp.reduce(log_weights), tuple(components))

    def _size(self) -> Array:
        """(d,) standard deviation of each column in the fit's units; 1 for constant columns."""
        return np.where(self.variance > 0, np.sqrt(self.variance), 1.0)


def least_noise(variance: Array, noise: Noise) -> Array:
    """(d,) floor of the noise of components whose columns have this variance."""
    positive = variance[variance > 0]
    if len(positive) == 0:
        return np.full(len(variance), FLOOR[noise])
    if noise == "diagonal":
        return FLOOR[noise] * np.where(variance > 0, variance, 1.0)
    smallest, largest = float(np.min(positive)), float(np.max(positive))
    return np.full(len(variance), max(FLOOR[noise] * smallest, LARGEST_RATIO * largest))


def _graded(component: Parameters) -> Array:
    """Rotation (q, q) of z to axes of falling strength: they make the precisions graded."""
    strength = component.W.T @ (component.W / component.psi[:, None])
    return np.asarray(np.linalg.eigh(strength)[1][:, ::-1])


def _turned(parameters: MixtureParameters, turns: Sequence[Array]) -> MixtureParameters:
    pairs = zip(parameters.components, turns, strict=True)
    return replace(parameters, components=tuple(replace(c, W=c.W @ turn) for c, turn in pairs))


def _vanishing(parameters: MixtureParameters) -> NDArray[np.bool_]:
    """(K,) components with a noise variance of almost nothing beside what they explain."""
    return np.array(
        [np.any(c.psi < VANISHING * np.sum(c.W**2, axis=1)) for c in parameters.components]
    )


def _refuse_dead(
    expected: MixtureExpected, current: MixtureParameters, at_floor: NDArray[np.bool_]
) -> None:
    if current.K == 1:
        return
    for k, (sum_w, c) in enumerate(zip(expected.sum_w(), current.components, strict=True)):
        few = sum_w < c.W.shape[1] + LEAST_ROWS
        if sum_w < LEAST_ROWS or (few and at_floor[k]):
            raise DeadComponentError(k, current)


def _prepare(block: Block, shift: Array, unit: Array, q: int) -> ObservedRows:
    # A sparse table is complete, and centring fills it: EM has no use for its zeros.
    values = block.values if isinstance(block.values, np.ndarray) else block.values.toarray()
    return prepare_rows(values, block.weight, shift, unit, q)
