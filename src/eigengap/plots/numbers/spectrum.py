"""The eigenvalues of an estimator, compared with each other and with those of noise.

Of complete tables all are known. With missing values a model of q components has q of them and
the mean of the d - q others, its noise variance: q + 1 values. `trace_numbers` has the steps of the
fit.

The eigenvalues of noise have a law (Marchenko and Pastur 1967). The sample covariance of n rows
of d independent columns of variance sigma2 has eigenvalues that, as n and d grow with ratio
g = d / n, lie between a = sigma2 (1 - sqrt g)^2 and b = sigma2 (1 + sqrt g)^2 with the density

    f(x) = sqrt((b - x)(x - a)) / (2 pi sigma2 g x);

where d > n, d - n of them are zero besides. An eigenvalue beyond b is not explained by noise; a
component of variance below sigma2 sqrt g above the noise leaves no trace (Baik, Ben Arous and Peche
2005). In a finite table the largest eigenvalue of noise is about half as often beyond b as not; it
follows the law of Tracy and Widom (Johnstone 2001), whose 95 % quantile bounds what is chance.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from eigengap.estimators.shared.display import has_stopped_early, objective_of, public_name
from eigengap.linalg import Array
from eigengap.plots.numbers.rows import inner
from eigengap.registry import ESTIMATORS, entry_of, names_with
from eigengap.selection.rank.choice import DoesNotApplyError, RankChoice
from eigengap.selection.rank.search import largest_rank
from eigengap.selection.rank.spectral import largest_eigengap
from eigengap.spectrum import Spectrum

TRACY_WIDOM = 0.9793  # 95 % quantile of the law for real matrices


@dataclass(frozen=True, eq=False)
class Gap:
    """The largest gap: between component k and the next, counted from 1."""

    k: int
    size: float  # the ratio of the two, or their difference
    is_ratio: bool
    is_partial: bool = False  # whether only some of the eigenvalues are known

    def __str__(self) -> str:
        what = f"ratio {self.size:.3g}" if self.is_ratio else f"difference {self.size:.3g}"
        return f"{self.k} → {self.k + 1} ({what})"


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """What a scree plot shows."""

    values: Array  # (r,) the known ones
    kept: int  # components of the estimator
    what: str  # what the values are
    gap: Gap | None
    total: float | None = None  # sum of all, where that is known
    rest: float | None = None  # mean of those beyond the known ones
    n_rest: int = 0  # how many these are
    noise: float | None = None  # noise variance common to all columns
    standardised: bool = False  # whether columns were divided by their standard deviations

    @property
    def share(self) -> Array | None:
        """(r,) of the total; None where that is not known."""
        if self.total is None or self.total <= 0.0:
            return None
        return self.values / self.total


def eigenvalues(estimator: Any, choice: RankChoice | None = None) -> Eigenvalues:
    """The eigenvalues behind a fitted estimator; AttributeError where there are none.

    The gap is that of the criterion "eigengap" where a choice of rank has it, `choice` or the
    estimator's own; else the largest among the eigenvalues that are known one by one.
    """
    model = inner(estimator)
    found = _eigenvalues(estimator, model)
    for known in (choice, getattr(model, "rank_choice_", None)):
        if known is not None and "eigengap" in known.criteria:
            k, curve = known.criteria["eigengap"], dict(known.curves.get("eigengap", {}))
            if k in curve:
                return replace(found, gap=Gap(k, float(curve[k]), is_ratio=True))
    return found


def _eigenvalues(estimator: Any, model: Any) -> Eigenvalues:
    spectrum = getattr(model, "spectrum_", None)
    if isinstance(spectrum, Spectrum):
        return _of_spectrum(model, spectrum)
    if spectrum is not None:  # of inner products, of either sign
        return _of_pairs(model, spectrum.lam, spectrum.positive + spectrum.negative)
    kind = entry_of(model).name
    if kind == "LaplacianEigenmaps":
        return _rising(model)
    if kind == "KernelPCA":
        lam = model.eigenvalues_
        share = model.explained_variance_ratio_
        total = float(lam[0] / share[0]) if len(lam) and share[0] > 0 else None
        return _of_pairs(model, lam, total)
    if getattr(model, "eigenvalues_", None) is not None:
        return _of_pairs(model, model.eigenvalues_)
    if getattr(model, "explained_variance_", None) is not None:
        return _of_pairs(model, model.explained_variance_, what="explained variance")
    raise AttributeError(
        f"{public_name(estimator)} has no scree plot, for it has no eigenvalues. "
        f"{names_with('scree')} do"
    )


def _of_spectrum(model: Any, spectrum: Spectrum) -> Eigenvalues:
    factor = spectrum.sum_w / (spectrum.sum_w - 1.0)
    lam = spectrum.lam * factor
    n_rest = 0 if spectrum.complete else spectrum.d - len(lam)
    rest = None
    if n_rest > 0:
        rest = max(spectrum.total - float(np.sum(spectrum.lam)), 0.0) / n_rest * factor
    gap = None
    if spectrum.complete:
        with suppress(DoesNotApplyError):
            k, curve = largest_eigengap(spectrum, largest_rank(spectrum.d, spectrum.sum_w))
            gap = Gap(k, curve[k], is_ratio=True)
    else:  # the mean of all others is no eigenvalue: the last known one over it is no gap
        gap = largest_ratio(spectrum.lam, len(spectrum.lam) - 1)
        gap = None if gap is None else replace(gap, is_partial=True)
    return Eigenvalues(
        values=lam,
        kept=int(model.n_components_),
        what="explained variance",
        gap=gap,
        total=spectrum.total * factor,
        rest=rest,
        n_rest=n_rest,
        noise=float(model.noise_variance_) if np.ndim(model.noise_variance_) == 0 else None,
        standardised=model.scale_ is not None,
    )


def _of_pairs(
    model: Any, lam: Any, total: float | None = None, what: str = "eigenvalue of the inner products"
) -> Eigenvalues:
    lam = np.asarray(lam, dtype=np.float64)
    kept = int(getattr(model, "n_components_", len(lam)))
    gap = largest_ratio(lam, max(len(lam) // 2, 1))
    return Eigenvalues(lam, kept, what, gap, total)


def _rising(model: Any) -> Eigenvalues:
    """Of a Laplacian, whose small eigenvalues matter: the gap is the largest difference."""
    lam = np.asarray(model.eigenvalues_, dtype=np.float64)
    gap = None
    if len(lam) > 1:
        k = int(np.argmax(np.diff(lam)))
        gap = Gap(k + 1, float(lam[k + 1] - lam[k]), is_ratio=False)
    return Eigenvalues(lam, len(lam), "eigenvalue of the graph Laplacian", gap)


def largest_ratio(lam: Array, last: int) -> Gap | None:
    """The largest gap among the first eigenvalues, up to that after the `last`."""
    positive = lam[: int(np.sum(np.cumprod(lam > 0.0)))]
    if len(positive) == 0 or len(lam) < 2:
        return None
    floor = positive[0] * np.finfo(np.float64).eps
    last = min(last, len(lam) - 1, len(positive))
    ratio = [float(lam[k] / max(lam[k + 1], floor)) for k in range(last)]
    if not ratio:
        return None
    k = int(np.argmax(ratio))
    return Gap(k + 1, ratio[k], is_ratio=True)


# Against noise ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarchenkoPastur:
    """The law for n rows (those left when the mean is taken off), d columns, noise sigma2."""

    n: float
    d: int
    sigma2: float

    @property
    def edges(self) -> tuple[float, float]:
        root = sqrt(self.d / self.n)
        return self.sigma2 * (1.0 - root) ** 2, self.sigma2 * (1.0 + root) ** 2

    @property
    def by_chance(self) -> float:
        """What the largest eigenvalue of noise exceeds in 5 % of tables (Johnstone 2001)."""
        a, b = sqrt(max(self.n - 1.0, 1.0)), sqrt(self.d)
        scale = (a + b) * (1.0 / a + 1.0 / b) ** (1.0 / 3.0)
        return self.sigma2 * ((a + b) ** 2 + TRACY_WIDOM * scale) / self.n

    def density(self, x: Array) -> Array:
        """Of the eigenvalues that are not zero by force: integrates to min(1, n / d)."""
        low, high = self.edges
        inside = (x > low) & (x < high)
        at = np.where(inside, x, 1.0)
        value = np.sqrt(np.maximum((high - at) * (at - low), 0.0))
        return np.where(inside, value / (2 * np.pi * self.sigma2 * (self.d / self.n) * at), 0.0)


@dataclass(frozen=True, eq=False)
class AgainstNoise:
    """Eigenvalues compared with those of noise."""

    values: Array  # (r,) known eigenvalues at divisor n - 1, descending
    law: MarchenkoPastur
    kept: int  # components of the model whose noise variance this is
    complete: bool  # whether `values` are all that can differ from zero

    @property
    def exceeding(self) -> int:
        """How many eigenvalues lie beyond the edge."""
        return int(np.sum(self.values > self.law.edges[1]))

    @property
    def beyond_chance(self) -> int:
        """How many lie farther out than the largest of noise does in 95 % of tables."""
        return int(np.sum(self.values > self.law.by_chance))


def against_noise(estimator: Any) -> AgainstNoise:
    """The spectrum of a fitted estimator with the law of noise of its own noise variance."""
    model = inner(estimator)
    spectrum = getattr(model, "spectrum_", None)
    if not isinstance(spectrum, Spectrum) or np.ndim(model.noise_variance_) != 0:
        raise AttributeError(
            f"{public_name(estimator)} has no spectrum to hold against noise: that takes a "
            "covariance, and one noise variance for all columns. PCA, PPCA and BayesianPCA (with "
            'noise="isotropic") have them'
        )
    n = spectrum.sum_w - 1.0
    factor = spectrum.sum_w / n
    sigma2 = float(model.noise_variance_) * factor
    if sigma2 <= 0.0:
        raise ValueError(
            f"{public_name(estimator)} keeps every direction, so that nothing is left for noise: "
            "fit fewer components than columns"
        )
    law = MarchenkoPastur(n, spectrum.d, sigma2)
    return AgainstNoise(
        spectrum.lam * factor, law, int(model.n_components_), bool(spectrum.complete)
    )


# Steps of the fit ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Steps:
    """The trace of a fit."""

    step: Array  # (k,) from 1
    objective: Array  # (k,) of the data in their own units
    distance: Array  # (k,) |objective - that of the last step|
    change: Array  # (k,) size of each step, in the unit of tol
    tol: float | None  # at which the fit ends
    converged: bool | None  # None where it was stopped early on purpose
    seconds: float
    what: str


def trace_numbers(estimator: Any) -> Steps:
    """The steps of a fitted estimator; AttributeError where it has none."""
    model = inner(estimator)
    trace = getattr(model, "trace_", None)
    name = public_name(estimator)
    if trace is None:
        *others, last = (entry.name for entry in ESTIMATORS if entry.objective)
        raise AttributeError(
            f"{name} has no trace, for it is not fitted step by step. "
            f"{', '.join(others)} and {last} have one"
        )
    if len(trace) == 0:
        raise ValueError(
            f"{name} was fitted at once, without any steps (complete data have a closed form): "
            "there is no trace to draw"
        )
    objective = objective_of(model)
    tol = getattr(model, "tol", None)
    return Steps(
        step=np.arange(1, len(objective) + 1, dtype=np.float64),
        objective=objective,
        distance=np.abs(objective - objective[-1]),
        change=np.asarray(trace.change, dtype=np.float64),
        tol=float(tol) if tol else None,
        converged=None if has_stopped_early(estimator) else getattr(model, "converged_", None),
        seconds=float(trace.seconds[-1]),
        what=entry_of(model).objective or "objective",
    )
