"""Maximum likelihood of a mixture of linear-Gaussian models, from incomplete rows.

Mixtures of PPCA (Tipping and Bishop 1999) and of factor analysers (Ghahramani and Hinton 1996): one
model of all rows, clusters of its scores, EM from several such starts, split-and-merge moves, ranks
by ARD where they are not given, and EM to the end. `problem` has the EM map, `start` the start,
`moves` the moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eigengap.fitting.gaussian.problem import (
    EMOptions,
    Noise,
    Run,
    column_moments,
    n_patterns,
    rows_of_patterns,
)
from eigengap.fitting.mixture.moves import (
    candidate_moves,
    dropped,
    moved,
    reborn,
    with_ranks,
)
from eigengap.fitting.mixture.problem import SMALL, DeadComponentError, MixtureProblem
from eigengap.fitting.mixture.start import Scores, canonical, cluster_start, single_start
from eigengap.fitting.optimise.loop import Checkpointer, Progress, Trace, checkpointer_of
from eigengap.linalg import Array
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.sources.base import Source
from eigengap.statistics.expected.mixture import MixtureParameters

LOOSE = 1e-3  # tolerance at which starts, moves and ranks are compared
LOOSE_STEPS = 100  # most EM steps of each
GAIN = 1e-3  # nats a row that a further start or a move must bring
PACE, HOPE = 5, 5.0  # one ends if HOPE times what its last PACE steps gained is not enough
CAUTIOUS = 0.5  # of the typical noise variance: the floor while ARD chooses ranks of factors
REBIRTHS = 3  # of components in one run before one is dropped
LARGEST_AUTO = 30  # most components that ARD starts from: its cost grows with their cube


@dataclass(frozen=True)
class MixtureOptions(EMOptions):
    """How to fit, apart from the model: see `eigengap.MixturePPCA` for the meaning of each."""

    tol: float = 1e-5
    split_merge: int = 5


DEFAULT = MixtureOptions()


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """A fitted mixture and how it was reached."""

    model: MixtureOfLinearGaussians
    log_likelihood: float  # of all rows, weighted
    observed_w: Array  # (d,) weighted number of rows in which each feature was observed
    component_observed_w: Array  # (K, d) the same by responsibility
    component_sum_w: Array  # (K,) rows of each component, by weight and responsibility
    converged: bool
    trace: Trace  # of the run that was kept, seconds since the fit began
    reborn: int  # times that a component died and was started anew, in that run
    at_floor: tuple[int, ...]  # components with a noise variance at the floor

    @property
    def n_iter(self) -> int:
        return len(self.trace)


def fit_mixture(
    source: Source,
    K: int,
    ranks: Sequence[int] | None,
    noise: Noise,
    *,
    shared_noise: bool = False,
    options: MixtureOptions = DEFAULT,
) -> MixtureFit:
    """Fit K components of the given ranks (K of them), or of ranks found by ARD (None)."""
    columns = column_moments(source, noise)
    if not np.any(columns.variance > 0.0):
        raise ValueError(
            "all rows are equal, so there is nothing to distinguish components and no variance "
            "to model; leave such a table out"
        )
    largest = largest_rank(source.n_features, source.observed().sum_w, K, ranks)
    problem = MixtureProblem.of(source, columns, largest, noise, shared_noise)
    return Fitting(problem, options).fit(K, ranks, largest)


def largest_rank(d: int, sum_w: float, K: int, ranks: Sequence[int] | None) -> int:
    """Of the components; ARD starts from two rows of each cluster for each latent dimension."""
    if ranks is not None:
        return max(ranks)
    return max(1, min(d - 1, int(sum_w / K) // 2, LARGEST_AUTO))


def evidence_of_components(
    source: Source, fit: MixtureFit, noise: Noise
) -> tuple[ObservationPattern, ...]:
    """Which cells each component was fitted to: the patterns of a sample of its own rows."""
    model = fit.model
    if not source.has_missing:
        complete = np.ones((1, model.d), dtype=bool)
        return tuple(
            ObservationPattern(complete, observed_w, noise)
            for observed_w in fit.component_observed_w
        )
    k = n_patterns(model.d, max(model.ranks))
    rows, weight = rows_of_patterns(source, k * model.K)
    observed, labels = ~np.isnan(rows), np.argmax(model.responsibilities(rows), axis=1)
    patterns = []
    for k, observed_w in enumerate(fit.component_observed_w):
        own = labels == k if np.any(labels == k) else np.ones(len(rows), dtype=bool)
        patterns.append(ObservationPattern(observed[own], observed_w, noise, count=weight[own]))
    return tuple(patterns)


def n_parameters(
    model: MixtureOfLinearGaussians, noise: Noise, shared_noise: bool, known: int = 0
) -> int:
    """Weights, means, loadings up to rotation, noise of all but `known` columns."""
    d = model.d
    loadings = sum(d * q - q * (q - 1) // 2 for q in model.ranks)
    noises = min(d - known, 1) if noise == "isotropic" else d - known
    noises *= 1 if shared_noise else model.K
    return model.K - 1 + model.K * d + loadings + noises


@dataclass(frozen=True, eq=False)
class _Settled(Run[MixtureParameters]):
    """A run and the deaths on its way."""

    reborn: int = 0

    def is_after(self, earlier: _Settled) -> bool:
        """Whether no component has died since."""
        return self.reborn == earlier.reborn and self.parameters.K == earlier.parameters.K


@dataclass(frozen=True, eq=False)
class Fitting:
    """One fit: what its stages share."""

    problem: MixtureProblem
    options: MixtureOptions

    def fit(self, K: int, ranks: Sequence[int] | None, largest: int) -> MixtureFit:
        if ranks is None:  # one model of all rows, whose rank ARD finds
            single = self._pruned(self._loose(single_start(self.problem, largest)))
        else:
            single = self._loose(self._one(K, ranks))
        if K == 1:
            return self._finish(single)
        if ranks is None:
            largest = single.parameters.ranks[0]
        scores = Scores.of(self.problem, single.parameters.components[0])
        starts = [
            cluster_start(scores, [largest] * K, self._generator(s), whiten=s % 2 == 1)
            for s in range(self.options.n_init)
        ]
        within = replace(self, problem=self.problem.with_floor_within(starts[0]))
        return within._from_starts(starts, ranks)

    def _from_starts(
        self, starts: Sequence[MixtureParameters], ranks: Sequence[int] | None
    ) -> MixtureFit:
        """The best of several starts, improved by moves, cut to its ranks, and finished."""
        best = self._loose(starts[0])
        for start in starts[1:]:
            best = self._better(best, start) or best
        best = self._improved(best)
        if ranks is None:
            best = self._pruned(best)
        elif len(set(ranks)) > 1 and len(ranks) == best.parameters.K:
            cut = with_ranks(best.parameters, ranks, self.problem.units.sum_w)
            best = self._loose(cut, best)
        return self._finish(best)

    # Stages -----------------------------------------------------------------------------------

    def _one(self, K: int, ranks: Sequence[int]) -> MixtureParameters:
        """A model of all rows with room for a component's loadings and for K means."""
        units = self.problem.units
        most = max(min(units.d - 1, int(units.sum_w) - 1), 1)
        return single_start(self.problem, max(max(ranks), min(max(ranks) + K - 1, most)))

    def _improved(self, best: _Settled) -> _Settled:
        """Split-and-merge moves for as long as one of the candidates is a gain."""
        most, K = self.options.split_merge, best.parameters.K
        if most == 0 or K < 3:
            return best
        improved = True
        while improved:
            improved = False
            expected = self.problem.expected(best.parameters)
            for move in candidate_moves(expected, most):
                better = self._better(best, moved(best.parameters, move))
                if better is not None:
                    best, improved = better, True
                    break
        return best

    def _better(self, best: _Settled, start: MixtureParameters) -> _Settled | None:
        """A loose run from there if it is a gain; it ends where it has no hope or one dies."""
        least = best.objective + GAIN * self.problem.units.sum_w
        if start.K < best.parameters.K:
            return None
        hope = _Hope(least, checkpointer_of(self.options.watch))
        try:
            run = self.problem.run(start, replace(self._loose_options(), watch=hope))
        except (DeadComponentError, _HopelessError):
            return None
        return _Settled(**vars(run)) if run.objective > least else None

    def _pruned(self, settled: _Settled) -> _Settled:
        """ARD from there, the columns that it empties taken out, and loose EM without it."""
        components = tuple(canonical(c) for c in settled.parameters.components)
        start = replace(settled.parameters, components=components)
        cautious = replace(_with_cautious_floor(self.problem, start), ard=True)
        shrunk = replace(self, problem=cautious)._loose(start, settled)
        return self._loose(_without_empty_columns(shrunk.parameters), shrunk)

    def _finish(self, settled: _Settled) -> MixtureFit:
        left = max(self.options.max_iter - len(settled.trace), 1)
        last = replace(self.problem, takes_boundary_steps=self.problem.noise == "diagonal")
        last_stage = replace(self, problem=last)
        end = last_stage._settle(
            settled.parameters, replace(self.options, max_iter=left), before=settled
        )
        if end.is_after(settled):
            a, b = settled.trace.seconds, end.trace.seconds
            # A run that was kept from an earlier process has the seconds of that one.
            delay = max(a[-1] - b[0], 0.0) if len(a) and len(b) else 0.0
            end = replace(end, trace=settled.trace.then(end.trace, delay))
        return _fit_of(self.problem, end)

    # EM with rebirths ---------------------------------------------------------------------------

    def _loose(self, start: MixtureParameters, before: _Settled | None = None) -> _Settled:
        return self._settle(start, self._loose_options(), before)

    def _loose_options(self) -> MixtureOptions:
        return replace(self.options, tol=LOOSE, max_iter=min(LOOSE_STEPS, self.options.max_iter))

    def _settle(
        self, start: MixtureParameters, options: MixtureOptions, before: _Settled | None = None
    ) -> _Settled:
        """EM to its end; a component that dies is started anew a few times, then dropped."""
        births = 0 if before is None else before.reborn
        rng = self._generator(births)
        for attempt in range(REBIRTHS + start.K):
            try:
                return _Settled(**vars(self.problem.run(start, options)), reborn=births)
            except DeadComponentError as dead:
                if attempt < REBIRTHS:
                    start = reborn(dead.at, dead.k, *_badly_explained(self.problem, dead, rng))
                    births += 1
                else:
                    start = dropped(dead.at, dead.k)
        raise AssertionError("the last component cannot die")

    def _generator(self, stage: int) -> np.random.Generator:
        return np.random.default_rng([self.options.seed, stage])


class _HopelessError(Exception):
    """A run that is not worth finishing."""


class _Hope:
    """Watches a run, and ends it where at its pace it will not reach the objective in time."""

    def __init__(self, least: float, checkpointer: Checkpointer | None) -> None:
        self._least = least
        self.checkpointer = checkpointer
        self._observed: list[float] = []

    def __call__(self, progress: Progress) -> None:
        self._observed.append(progress.objective)
        if len(self._observed) > PACE:
            gained = self._observed[-1] - self._observed[-1 - PACE]
            if self._observed[-1] + HOPE * gained < self._least:
                raise _HopelessError


def _fit_of(problem: MixtureProblem, settled: _Settled) -> MixtureFit:
    """The fit in the data's units."""
    parameters, units = settled.parameters, problem.units
    expected = problem.expected(parameters)
    order = np.argsort(-parameters.log_weights, kind="stable")
    components = [parameters.components[k] for k in order]
    models = [LinearGaussian(W=c.W, mu=c.delta, psi=c.psi) for c in components]
    model = MixtureOfLinearGaussians(parameters.log_weights[order], models)
    at_floor = problem.reached_floor(parameters)[order]
    return MixtureFit(
        model=model.rescaled(units.unit, units.shift).canonical(),
        log_likelihood=settled.objective - problem.log_prior(parameters) - units.log_jacobian,
        observed_w=units.observed_w,
        component_observed_w=np.stack([expected.components[k].observed() for k in order]),
        component_sum_w=expected.sum_w()[order],
        converged=settled.converged,
        trace=units.in_data(settled.trace),
        reborn=settled.reborn,
        at_floor=tuple(int(k) for k in np.flatnonzero(at_floor)),
    )


def _with_cautious_floor(problem: MixtureProblem, start: MixtureParameters) -> MixtureProblem:
    """A floor that keeps a column of W from living on the noise of a single feature.

    Such a column (a Heywood case) gains likelihood without end, and no prior on its length
    distinguishes it from one that many features share.
    """
    if problem.noise == "isotropic":
        return problem
    typical = np.median(np.stack([c.psi for c in start.components]), axis=1)
    return replace(problem, floor=np.maximum(problem.floor, CAUTIOUS * np.mean(typical)))


def _without_empty_columns(parameters: MixtureParameters) -> MixtureParameters:
    """Columns of W that ARD has emptied taken out, down to the longest."""
    components = []
    for c in parameters.components:
        length = np.sum(c.W**2, axis=0)
        kept = length > 100 * SMALL
        kept[np.argmax(length)] = True
        components.append(replace(c, W=c.W[:, kept]))
    return replace(parameters, components=tuple(components))


def _badly_explained(
    problem: MixtureProblem, dead: DeadComponentError, rng: np.random.Generator
) -> tuple[Array, int]:
    """A row (d,), missing values imputed, that the others explain badly, and the best of them.

    Drawn with probability proportional to its squared distance beyond what the model expects, but
    no more than that again: a component on an outlier would only die again.
    """
    others = dropped(dead.at, dead.k)
    rows = problem.excess(others)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]  # whatever their order was
    passed = np.cumsum(rows[:, 0] * rows[:, 1])
    drawn = int(np.searchsorted(passed, rng.random() * passed[-1], side="right"))
    row = rows[min(drawn, len(rows) - 1)]
    owner = int(row[2])
    return row[3:], owner + (owner >= dead.k)
