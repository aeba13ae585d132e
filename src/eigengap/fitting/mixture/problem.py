"""The EM problem of a mixture of linear-Gaussian models, from incomplete rows.

Units, floor and packing are those of a single model (`fitting.gaussian.problem`). The E-step is
`statistics.expected.mixture`, which has the M-step too (Tipping and Bishop 1999,
"Mixtures of probabilistic principal component analysers", Eqs. 22 to 25 and Appendix C).

Under `ard` every column of every W has a Gaussian prior whose precision is learned along (Bishop
1999, "Bayesian PCA"): with alpha_c = d / (|w_c|^2 + SMALL) the EM map raises

    log-likelihood - d/2 sum_c ln(|w_c|^2 + SMALL),

for the penalty is concave in |w_c|^2 and lies below its tangent. A column that explains no more
than noise would goes to zero, cubically in the end. On complete data with n rows and sigma2 = 1 one
stays if the sample has variance at least 1 + 2 g + 2 sqrt(g (1 + g)), g = d / n, along it: just
above the edge of the spectrum of pure noise, (1 + sqrt(g))^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.gaussian.problem import (
    AT_FLOOR,
    EMOptions,
    Noise,
    Packing,
    Problem,
    Run,
    Units,
    graded_axes,
    noise_floor,
)
from eigengap.fitting.gaussian.start import spectral_start
from eigengap.fitting.optimise.em import Bounds, Mapped, Slope
from eigengap.fitting.optimise.loop import Progress, Trace, Watch, checkpointer_of
from eigengap.linalg import Array
from eigengap.models.gaussian.mixture import mixture_posteriors
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.models.gaussian.posterior import BlockCoefficients
from eigengap.sources.base import Source
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    gradient,
    maximise_together,
)
from eigengap.statistics.expected.mixture import (
    MixtureExpected,
    MixtureParameters,
    maximise_mixture,
)
from eigengap.statistics.moments import ColumnMoments

# Fewer rows than this, by responsibility, are no component; nor are q + 1 rows and half a one whose
# noise has vanished, for a plane goes through any q + 1 points.
LEAST_ROWS = 1.5

VANISHING = 1e-5  # noise, relative to the variance of a column, at which rounding may exceed a step

SMALL = 1e-8  # squared length of a column of W, in the fit's units, that counts as zero


class DeadComponentError(FloatingPointError):
    """A component has lost its rows, or has collapsed onto as few as it can fit exactly."""

    def __init__(self, k: int, at: MixtureParameters) -> None:
        super().__init__(f"component {k} has died")
        self.k = k
        self.at = at


@dataclass(frozen=True, eq=False)
class MixtureProblem(Problem[MixtureParameters]):
    """The fit in its own units."""

    rows: Source  # of ObservedRows
    units: Units
    noise: Noise
    shared_noise: bool
    floor: Array  # (d,) least noise variance
    began: float  # when, by the clock
    ard: bool = False
    # Steps to the floor help at the end of a fit; before it they may put a noise variance there
    # that would have come back when the components had found their places.
    takes_boundary_steps: bool = False

    @classmethod
    def of(
        cls, source: Source, columns: ColumnMoments, q: int, noise: Noise, shared_noise: bool
    ) -> MixtureProblem:
        """q is the largest rank, which decides how rows are arranged."""
        units = Units.of_columns(source, columns, noise)
        rows = source.prepared(partial(units.prepare, q=q))
        return cls(rows, units, noise, shared_noise, units.floor(noise), perf_counter())

    def constraints(self) -> Constraints:
        return Constraints(noise=self.noise, floor=self.floor)

    def run(self, start: MixtureParameters, options: EMOptions) -> Run[MixtureParameters]:
        """EM from a start, its trace in seconds since the fit began.

        Raises DeadComponentError where a component dies.
        """
        before = perf_counter() - self.began
        if self.shared_noise:
            shared = np.exp(start.log_weights) @ np.stack([c.psi for c in start.components])
            components = tuple(replace(c, psi=shared) for c in start.components)
            start = replace(start, components=components)
        recorded = _Recorded(options.watch)
        try:
            run = super().run(start, replace(options, watch=recorded))
        except ObjectiveFellError as fell:
            if fell.top is None or not np.isfinite(fell.top_value):
                raise
            reached = self.unpack(fell.top, start)
            # On hardly more rows than it has directions noise vanishes, and rounding shows first.
            few = self._on_few_rows(reached)
            if len(few):
                raise DeadComponentError(int(few[0]), reached) from fell
            if not (self.reached_floor(reached).any() or _vanishing(reached).any()):
                raise
            # Where noise has vanished, rounding exceeds what is left to gain: that is the end.
            run = Run(reached, fell.top_value, converged=False, trace=recorded.trace())
        return replace(run, trace=Trace().then(run.trace, before))

    def reached_floor(self, parameters: MixtureParameters) -> NDArray[np.bool_]:
        """(K,) components with a noise variance at the floor."""
        return np.array([np.any(c.psi <= self.floor * AT_FLOOR) for c in parameters.components])

    def _on_few_rows(self, parameters: MixtureParameters) -> NDArray[np.intp]:
        """Components, of several, that have hardly more rows than they can fit exactly."""
        sum_w = np.asarray(self.expected(parameters).sum_w())
        enough = np.array([q + LEAST_ROWS for q in parameters.ranks])
        return np.flatnonzero((sum_w < enough) & (parameters.K > 1))

    # Where EM starts ------------------------------------------------------------------------

    def first(self, q: int) -> Parameters:
        """One model of rank q for all rows."""
        how = self.constraints()
        return spectral_start(self.rows, q, self.units, how, thorough=False).first

    def scores(self, model: Parameters) -> Array:
        """Posterior means of z under one model and the weight of each row: (n, q + 1)."""
        return self.rows.map(partial(_scores, model=model))

    def excess(self, parameters: MixtureParameters) -> Array:
        """How badly rows are explained: (n, 3 + d).

        Excess of its squared distance from the component it is in, its weight, that component, the
        row with its missing values imputed.
        """
        return self.rows.map(partial(_with_excess, parameters=parameters))

    def with_floor_within(self, start: MixtureParameters) -> Self:
        """The floor of the noise by the variance within clusters, which may lie far apart."""
        weights = np.exp(start.log_weights)
        variances = [np.sum(c.W**2, axis=1) + c.psi for c in start.components]
        within = np.minimum(weights @ np.stack(variances), self.units.variance)
        return replace(self, floor=noise_floor(within, self.noise))

    # The EM map -----------------------------------------------------------------------------

    def expected(self, parameters: MixtureParameters, passes: int = 1) -> MixtureExpected:
        """The E-step: one pass over the rows."""
        return self.rows.reduce(
            partial(
                MixtureExpected.of,
                log_weights=parameters.log_weights,
                coefficients=parameters.components,
                passes=passes,
            )
        )

    def apply(self, theta: Array, like: MixtureParameters, passes: int = 1) -> Mapped:
        at = self.unpack(theta, like)
        rotations = [
            np.eye(c.W.shape[1]) if self.ard else graded_axes(c.W, c.psi) for c in at.components
        ]
        current = replace(at, components=_rotated(at.components, rotations))
        back = [rotation.T for rotation in rotations]
        expected = self.expected(current, passes)
        how = [self._how(c) for c in current.components]
        _refuse_dead(expected, at, self.reached_floor(at))
        updated = maximise_mixture(expected, current, how, self.shared_noise, self.m_step)
        updated = replace(updated, components=_rotated(updated.components, back))

        def slope() -> Slope:
            each = zip(expected.components, current.components, how, strict=True)
            return self._packing(like).slope(
                at.components,
                _rotated([self.gradient(*one) for one in each], back),
                np.stack([e.observed() for e in expected.components]),
                log_weights=at.log_weights,
                sum_w=expected.sum_w(),
            )

        value = expected.log_likelihood + self.log_prior(at) - self._penalty(at)
        return Mapped(self.pack(updated), value, slope)

    def m_step(
        self,
        expected: Sequence[Expected],
        current: Sequence[Parameters],
        how: Sequence[Constraints],
    ) -> list[Parameters]:
        """One M-step of components that share their noise, or of a single one."""
        return maximise_together(expected, current, how)

    def gradient(self, expected: Expected, current: Parameters, how: Constraints) -> Parameters:
        """Derivatives of the objective by the parameters of a component."""
        return gradient(expected, current, how)

    def log_prior(self, parameters: MixtureParameters) -> float:
        """What the objective has besides the log-likelihood."""
        return 0.0

    def _how(self, component: Parameters) -> Constraints:
        if not self.ard:
            return self.constraints()
        precision = self.units.d / (np.sum(component.W**2, axis=0) + SMALL)
        return replace(self.constraints(), loading_precision=precision)

    def _penalty(self, parameters: MixtureParameters) -> float:
        if not self.ard:
            return 0.0
        lengths = [np.sum(c.W**2, axis=0) for c in parameters.components]
        return 0.5 * self.units.d * float(np.sum(np.log(np.concatenate(lengths) + SMALL)))

    def pack(self, parameters: MixtureParameters) -> Array:
        return self._packing(parameters).pack(parameters.components, parameters.log_weights)

    def unpack(self, theta: Array, like: MixtureParameters) -> MixtureParameters:
        components, log_weights = self._packing(like).unpack(theta)
        return MixtureParameters(log_weights, components)

    def bounds(self, like: MixtureParameters) -> Bounds:
        return self._packing(like).bounds()

    def boundary_step(self, theta: Array, image: Array, like: MixtureParameters) -> Array | None:
        """Small, falling noise variances put at the floor: EM is slow there (Heywood cases)."""
        if not self.takes_boundary_steps:
            return None
        components = self.unpack(image, like).components
        variance = np.stack([np.sum(c.W**2, axis=1) + c.psi for c in components])  # (K, d)
        variance = variance.min(axis=0) if self.shared_noise else variance
        return self._packing(like).at_limits(theta, image, variance)

    def _packing(self, like: MixtureParameters) -> Packing:
        return Packing(
            self.units,
            self.constraints(),
            like.ranks,
            has_weights=True,
            shared_noise=self.shared_noise,
        )


class _Recorded:
    """A callback that remembers the steps of a run, for one that ends by an error."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch
        self.checkpointer = checkpointer_of(watch)
        self._steps: list[Progress] = []

    def __call__(self, step: Progress) -> None:
        self._steps.append(step)
        if self._watch is not None:
            self._watch(step)

    def trace(self) -> Trace:
        facts = [(step.objective, step.change, step.seconds) for step in self._steps]
        return Trace(*np.array(facts).reshape(-1, 3).T)


def _rotated(
    components: Sequence[Parameters], rotations: Sequence[Array]
) -> tuple[Parameters, ...]:
    pairs = zip(components, rotations, strict=True)
    return tuple(replace(c, W=c.W @ rotation) for c, rotation in pairs)


def _vanishing(parameters: MixtureParameters) -> NDArray[np.bool_]:
    """(K,) components whose noise variance almost vanishes relative to what they explain."""
    return np.array(
        [np.any(c.psi < VANISHING * np.sum(c.W**2, axis=1)) for c in parameters.components]
    )


def _refuse_dead(
    expected: MixtureExpected, current: MixtureParameters, at_floor: NDArray[np.bool_]
) -> None:
    if current.K == 1:
        return
    for k, (sum_w, q) in enumerate(zip(expected.sum_w(), current.ranks, strict=True)):
        few = sum_w < q + LEAST_ROWS
        if sum_w < LEAST_ROWS or (few and at_floor[k]):
            raise DeadComponentError(k, current)


def _scores(rows: ObservedRows, model: Parameters) -> Array:
    """Posterior means and weights (c, q + 1), in the order of `rows.R`."""
    scores = np.ones((len(rows.order), model.q + 1))
    block = BlockCoefficients.of(rows, model)
    for chunk in rows.chunks(model.q):
        scores[chunk.rows, :-1] = block.posteriors(chunk).mean
    if rows.weight is not None:
        scores[:, -1] = rows.weight
    return scores


def _with_excess(rows: ObservedRows, parameters: MixtureParameters) -> Array:
    """Excess of its squared distance, weight, nearest component, imputed row: (c, 3 + d)."""
    components = parameters.components
    result = np.ones((len(rows.order), 3 + rows.d))
    for chunk, parts, resp, _ in mixture_posteriors(rows, parameters.log_weights, components):
        nearest = np.argmax(resp, axis=0)  # (c,)
        each = np.arange(len(nearest))
        distance = np.stack([part.distance for part in parts])[nearest, each]
        means = [part.mean @ c.W.T + c.delta for part, c in zip(parts, components, strict=True)]
        expected = chunk.row_cells
        result[chunk.rows, 0] = np.clip(distance - expected, 1e-12, expected + 1e-12)
        result[chunk.rows, 2] = nearest
        imputed = np.stack(means)[nearest, each]
        result[chunk.rows, 3:] = np.where(chunk.mask() > 0, chunk.values(), imputed)
    if rows.weight is not None:
        result[:, 1] = rows.weight
    return result
