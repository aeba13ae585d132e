"""How far rows lie from the model: T2 along its components, SPE away from them, and p-values.

The laws are those of `NoveltyDetector`: F, because the parameters were estimated. The rows of the
fit look a little more ordinary than new ones. Under a mixture a row is held against its most
probable component, with chi-squared laws.
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
from eigengap.exceptions import SingularModelError
from eigengap.linalg import Array
from eigengap.models.gaussian import novelty
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.reference import Reference
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.plots.numbers.outliers import detector_for, outlier_numbers
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject
from eigengap.sources import ArraySource
from eigengap.statistics.expected.fitted import NoiseRatio

ALPHA = 0.05
MOST_BLAMED = 12  # rows whose columns are looked at


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
    if subject.mixture is None and subject.gaussian is None:
        return (
            f"{subject.kind} has no density, so that no row can be called improbable; "
            "a NoveltyDetector of PPCA or factor analysis can."
        )
    try:
        if subject.mixture is not None:
            return _of_mixture(subject.mixture, look.X)
        return _of_gaussian(subject, look)
    except SingularModelError as error:
        return f"Distances from the model mean nothing here: {error}."


def _of_gaussian(subject: Subject, look: Look) -> RowDistances:
    detector = _detector(subject, look)
    found = outlier_numbers(detector, look.X, most=MOST_BLAMED, alpha=ALPHA)
    blame = _blame([detector.core_] * len(found.least_probable), look.X[found.least_probable])
    nothing = np.isnan(look.X).all(axis=1)
    return RowDistances(
        T2=np.where(nothing, np.nan, found.T2),
        SPE=np.where(nothing, np.nan, found.SPE),
        T2_limit=found.T2_limit,
        SPE_limit=found.SPE_limit,
        p=np.where(nothing, np.nan, found.p_value),
        least_probable=found.least_probable,
        **blame,
    )


def _blame(models: Sequence[LinearGaussian], X: Array) -> dict[str, Any]:
    """Of each row (k, d) the cell farthest from what its other observed values lead one to expect.

    As `NoveltyDetector.explain` and `eigengap score` name it: a wild cell draws the components
    along, and the columns that correlate with it add much to D2 without being to blame.
    """
    found = []
    for model, x in zip(models, X, strict=True):
        mean, sd = (part[0] for part in novelty.given_the_others(model, x[None]))
        j = int(np.argmax(np.where(np.isnan(x), -1.0, np.abs(x - mean) / sd)))
        found.append((j, float(mean[j]), float(sd[j])))
    columns, means, sds = zip(*found, strict=True) if found else ((), (), ())
    return {
        "blamed": np.array(columns, dtype=np.intp),
        "expected": np.array(means, dtype=np.float64),
        "expected_sd": np.array(sds, dtype=np.float64),
    }


def _detector(subject: Subject, look: Look) -> NoveltyDetector:
    if not isinstance(subject.gaussian, StudentLinearGaussian):
        return detector_for(subject.bare)
    core = _bulk(subject.gaussian, look.X)
    ratio = ArraySource(look.X).reduce(partial(NoiseRatio.of, core))
    observed = (look.n_rows - look.missing.per_column).astype(np.float64)
    detector = NoveltyDetector(subject.bare)
    detector.estimator_, detector.core_ = subject.bare, core
    detector.reference_ = Reference.of(core, float(look.n_rows), observed, ratio.mean)
    detector.offset_ = float(np.log(detector.alpha))
    detector.n_features_in_ = subject.n_features
    return detector


def _bulk(model: StudentLinearGaussian, X: Array) -> LinearGaussian:
    """The Gaussian of ordinary rows: scatter, scaled so that the median row is an ordinary one."""
    bulk = model.gaussian
    observed = np.count_nonzero(~np.isnan(X), axis=1)
    some = observed > 0
    D2 = novelty.squared_distance(bulk, X)
    factor = float(np.median(D2[some] / special.chdtri(observed[some], 0.5)))
    return replace(bulk, W=bulk.W * np.sqrt(factor), psi=bulk.psi * factor)


def _of_mixture(model: MixtureOfLinearGaussians, X: Array) -> RowDistances:
    part = np.argmax(model.responsibilities(X), axis=1)
    law = Reference()
    m = len(X)
    parts: dict[str, Any] = {name: np.full(m, np.nan) for name in ("T2", "SPE", "a", "b", "p")}
    for k, component in enumerate(model.models):
        at = np.flatnonzero((part == k) & ~np.isnan(X).all(axis=1))
        if not len(at):
            continue
        novelty.require_noise(component)
        here = novelty.distances(component, X[at])
        parts["T2"][at], parts["SPE"][at] = here.T2, here.SPE
        parts["a"][at] = special.chdtri(np.maximum(here.rank, 1), ALPHA)
        parts["b"][at] = special.chdtri(np.maximum(here.observed - here.rank, 1), ALPHA)
        parts["p"][at] = np.exp(law.log_p_D2(here.D2, here.observed))
    ranked = np.argsort(np.where(np.isfinite(parts["p"]), parts["p"], 2.0), kind="stable")
    least_probable = ranked[:MOST_BLAMED]
    return RowDistances(
        T2=parts["T2"],
        SPE=parts["SPE"],
        T2_limit=parts["a"],
        SPE_limit=parts["b"],
        p=parts["p"],
        least_probable=least_probable,
        **_blame([model.models[part[i]] for i in least_probable], X[least_probable]),
    )
