"""T2 and SPE of rows relative to their limits, and the columns that make outliers improbable.

An incomplete row has fewer degrees of freedom than a complete one, and its own limits: what
can be compared between rows is the value over the limit.

The laws are those of `NoveltyDetector`: F, because the parameters were estimated. The rows of the
fit look a little more ordinary than new ones. In the report a row of a mixture is compared with its
most probable component, with chi-squared laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from eigengap.estimators.novelty import NoveltyDetector
from eigengap.estimators.shared.display import public_name
from eigengap.exceptions import SingularModelError
from eigengap.linalg import Array
from eigengap.models.gaussian import novelty
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.reference import Reference
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.plots.numbers.rows import Look, all_rows, bare, count_of
from eigengap.plots.numbers.subject import Subject
from eigengap.sources import ArraySource
from eigengap.statistics.expected.fitted import NoiseRatio

HALVINGS = 80  # of the search for a limit
ALPHA = 0.05  # of the report
MOST_BLAMED = 12  # rows whose columns are looked at
# Probability outside of the interval of each of m order statistics where all m lie inside theirs
# with 95 % probability: equal local levels (Weine, McPeek and Abney 2023), by simulation
# to within 5 %, at 10 000 from 15 000 tables and below from more.
LOCAL_LEVELS = {
    1: 0.05, 2: 0.0265, 3: 0.0187, 5: 0.0123, 10: 0.0075, 20: 0.0047, 50: 0.00297, 100: 0.0021,
    200: 0.00167, 500: 0.00132, 2000: 0.00089, 10_000: 0.00068,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class OutlierNumbers:
    """How improbable every row is, and why the least probable are."""

    T2: Array  # (m,)
    SPE: Array  # (m,)
    T2_limit: Array  # (m,) that a share alpha of ordinary new rows exceeds
    SPE_limit: Array  # (m,)
    p_value: Array  # (m,) of both together
    flagged: NDArray[np.bool_]  # (m,) by the detector
    least_probable: NDArray[np.intp]  # (k,) rows of least p-value, in order
    shares: Array  # (k, d) what each column contributes to their D2; rows sum to it
    alpha: float


def outlier_numbers(
    detector: Any, X: Any, *, most: int = 6, alpha: float | None = None
) -> OutlierNumbers:
    """The statistics of rows X (m, d) under a detector, or a model that can serve as one."""
    X, detector = all_rows(X, detector).X, detector_for(detector)
    level = float(detector.alpha) if alpha is None else alpha
    plain = bare(detector)
    found = plain.statistics(X)
    observed, rank = found.D2.dof, found.T2.dof
    law = detector.reference_
    log_p = found.D2.log_p
    least_probable = np.argsort(log_p, kind="stable")[: count_of("most", most)]
    return OutlierNumbers(
        T2=found.T2.value,
        SPE=found.SPE.value,
        T2_limit=_limits(law.log_p_T2, observed, rank, level),
        SPE_limit=_limits(law.log_p_SPE, observed, rank, level),
        p_value=np.exp(log_p),
        flagged=log_p < detector.offset_,
        least_probable=least_probable,
        shares=np.asarray(plain.contributions(X[least_probable], of="D2")),
        alpha=level,
    )


def detector_for(estimator: Any) -> NoveltyDetector:
    """A fitted detector: the estimator itself, or one around a fitted linear-Gaussian model.

    The laws behind the p-values need to know which cells the model was fitted to, and the model has
    kept that.
    """
    if isinstance(estimator, NoveltyDetector):
        return estimator
    model = getattr(estimator, "model_", None)
    if not isinstance(model, LinearGaussian) or isinstance(model, StudentLinearGaussian):
        raise AttributeError(
            f"{public_name(estimator)} has no novelty plot: T2 and SPE need a Gaussian density, "
            "as PCA, PPCA, FactorAnalysis and BayesianPCA have it. "
            "NoveltyDetector(estimator).fit(X) takes Student noise too"
        )
    evidence = estimator.evidence_
    patterns = np.where(evidence.observed, model.mu, np.nan)
    ratio = ArraySource(patterns, weight=evidence.count).reduce(partial(NoiseRatio.of, model))
    rho = np.where(ratio.observed_w > 0, ratio.mean, 1.0)
    n = float(estimator.spectrum_.sum_w)
    return _detector(estimator, model, Reference.of(model, n, evidence.observed_w, rho))


def _detector(estimator: Any, core: LinearGaussian, reference: Reference) -> NoveltyDetector:
    detector = NoveltyDetector(estimator)
    detector.estimator_, detector.core_, detector.reference_ = estimator, core, reference
    detector.offset_ = float(np.log(detector.alpha))
    detector.n_features_in_ = estimator.n_features_in_
    if hasattr(estimator, "feature_names_in_"):
        detector.feature_names_in_ = estimator.feature_names_in_
    return detector


def _limits(log_p: Any, observed: NDArray[Any], rank: NDArray[Any], alpha: float) -> Array:
    """(m,) the values with p = alpha, by bisection for each pair of degrees of freedom."""
    pairs, which = np.unique(np.column_stack([observed, rank]), axis=0, return_inverse=True)
    s, r = pairs.T.astype(np.intp)
    low, high = np.zeros(len(s)), np.ones(len(s))

    def is_short(value: Array) -> NDArray[np.bool_]:
        return np.asarray(log_p(novelty.Distances(value, value, s, r)) > np.log(alpha))

    for _ in range(HALVINGS):  # first up to where it is exceeded
        short = is_short(high)
        if not short.any() or float(high.max()) > 1e12:
            break
        high = np.where(short, 2.0 * high, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        below = is_short(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(high[which.ravel()])


# Rows of the report ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowDistances:
    """Of the rows that are shown; NaN for a row without observed values."""

    T2: Array  # (m,)
    SPE: Array  # (m,)
    T2_limit: Array  # (m,) that 5 % of ordinary new rows exceed
    SPE_limit: Array  # (m,)
    p: Array  # (m,) probability of a larger D2 = T2 + SPE in an ordinary new row
    least_probable: NDArray[np.intp]  # (k,) rows, the least probable first
    blamed: NDArray[np.intp]  # (k,) the column of each that the others lead one to expect least
    expected: Array  # (k,) what they lead one to expect there
    expected_sd: Array  # (k,)


def distances_of(subject: Subject, look: Look) -> RowDistances | str:
    """The distances, or why there are none."""
    if subject.coded is not None:
        return (
            "T² and SPE need Gaussian columns; a NoveltyDetector of this model tests rows of "
            "columns of several kinds."
        )
    if subject.mixture is None and subject.gaussian is None:
        return (
            f"{subject.kind} has no density, so that no row can be called improbable; "
            "a NoveltyDetector of PPCA or factor analysis can."
        )
    try:
        if subject.mixture is not None:
            return _of_mixture(subject.mixture, look.X)
        detector = _report_detector(subject, look)
        found = outlier_numbers(detector, look.X, most=MOST_BLAMED, alpha=ALPHA)
    except SingularModelError as error:
        return f"Distances from the model mean nothing here: {error}."
    at, nothing = found.least_probable, np.isnan(look.X).all(axis=1)
    T2, SPE, p = (np.where(nothing, np.nan, v) for v in (found.T2, found.SPE, found.p_value))
    blame = _blame([detector.core_] * len(at), look.X[at])
    return RowDistances(T2, SPE, found.T2_limit, found.SPE_limit, p, at, *blame)


def _blame(models: Sequence[LinearGaussian], X: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Of each row (k, d) the cell farthest from what its other observed values lead one to expect.

    As `NoveltyDetector.explain` and `eigengap score` name it: an outlying value draws the
    components along, and the columns that correlate with it add much to D2 without being to blame.
    """
    found = []
    for model, x in zip(models, X, strict=True):
        mean, sd = (part[0] for part in novelty.given_the_others(model, x[None]))
        j = int(np.argmax(np.where(np.isnan(x), -1.0, np.abs(x - mean) / sd)))
        found.append((j, float(mean[j]), float(sd[j])))
    columns, means, sds = np.array(found).reshape(-1, 3).T
    return columns.astype(np.intp), means, sds


def _report_detector(subject: Subject, look: Look) -> NoveltyDetector:
    """Under Student noise the Gaussian of ordinary rows decides which ones are improbable."""
    if not isinstance(subject.gaussian, StudentLinearGaussian):
        return detector_for(subject.bare)
    # Scatter, scaled so that the median row is an ordinary one.
    bulk, observed = subject.gaussian.gaussian, np.count_nonzero(~np.isnan(look.X), axis=1)
    some = observed > 0
    D2 = novelty.squared_distance(bulk, look.X)
    factor = float(np.median(D2[some] / special.chdtri(observed[some], 0.5)))
    core = replace(bulk, W=bulk.W * np.sqrt(factor), psi=bulk.psi * factor)
    ratio = ArraySource(look.X).reduce(partial(NoiseRatio.of, core))
    per_column = (look.n_rows - look.missing.per_column).astype(np.float64)
    reference = Reference.of(core, float(look.n_rows), per_column, ratio.mean)
    return _detector(subject.bare, core, reference)


def _of_mixture(model: MixtureOfLinearGaussians, X: Array) -> RowDistances:
    part = np.argmax(model.responsibilities(X), axis=1)
    law = Reference()
    T2, SPE, T2_limit, SPE_limit, p = np.full((5, len(X)), np.nan)
    for k, component in enumerate(model.models):
        at = np.flatnonzero((part == k) & ~np.isnan(X).all(axis=1))
        if not len(at):
            continue
        novelty.require_noise(component)
        here = novelty.distances(component, X[at])
        T2[at], SPE[at] = here.T2, here.SPE
        T2_limit[at] = special.chdtri(np.maximum(here.rank, 1), ALPHA)
        SPE_limit[at] = special.chdtri(np.maximum(here.observed - here.rank, 1), ALPHA)
        p[at] = np.exp(law.log_p_D2(here.D2, here.observed))
    least_probable = np.argsort(np.where(np.isfinite(p), p, 2.0), kind="stable")[:MOST_BLAMED]
    blame = _blame([model.models[part[i]] for i in least_probable], X[least_probable])
    return RowDistances(T2, SPE, T2_limit, SPE_limit, p, least_probable, *blame)


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Distances as normal scores against those of the law, with a simultaneous 95 % band.

    Where rows follow the law all points lie inside the band with 95 % probability.
    """

    expected: Array  # (k,) ascending
    found: Array  # (k,)
    low: Array
    high: Array

    @property
    def outside(self) -> int:
        """Points outside the band."""
        return int(np.sum((self.found < self.low) | (self.found > self.high)))


def local_level(m: int) -> float:
    """What the interval of each of m order statistics leaves out, both ends together."""
    size, level = np.log(list(LOCAL_LEVELS)), np.log(list(LOCAL_LEVELS.values()))
    if np.log(m) > size[-1]:
        slope = (level[-1] - level[-2]) / (size[-1] - size[-2])
        return float(np.exp(level[-1] + slope * (np.log(m) - size[-1])))
    return float(np.exp(np.interp(np.log(m), size, level)))


def quantiles(p: Array) -> Quantiles:
    """From p-values, which are uniform where rows follow the law: -Phi^-1 of both.

    The k-th of m uniform numbers in order is Beta(k, m + 1 - k).
    """
    ordered = np.sort(p[np.isfinite(p)])[::-1]
    m = len(ordered)
    k = np.arange(1, m + 1)
    out = local_level(max(m, 1)) / 2
    return Quantiles(
        expected=special.ndtri((k - 0.5) / m),
        found=-special.ndtri(np.clip(ordered, 1e-300, 1 - 1e-16)),
        low=np.asarray(special.ndtri(special.betaincinv(k, m + 1 - k, out)), dtype=np.float64),
        high=np.asarray(special.ndtri(special.betaincinv(k, m + 1 - k, 1 - out)), dtype=np.float64),
    )
