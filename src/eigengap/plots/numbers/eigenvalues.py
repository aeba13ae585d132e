"""The eigenvalues that an estimator knows, and the largest gap between them.

Of complete tables all are known. With missing values a model of q components knows q of them and
the mean of the d - q others, its noise variance: q + 1 values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array
from eigengap.plots.numbers.rows import inner
from eigengap.registry import names_with
from eigengap.selection.rank.choice import DoesNotApplyError, RankChoice
from eigengap.selection.rank.search import largest_rank
from eigengap.selection.rank.spectral import largest_eigengap
from eigengap.spectrum import Spectrum


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
    total: float | None  # sum of all, where that is known
    rest: float | None  # mean of those beyond the known ones
    n_rest: int  # how many these are
    noise: float | None  # noise variance common to all columns
    what: str  # what the values are
    gap: Gap | None
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
        gap = _chosen_gap(known)
        if gap is not None:
            return replace(found, gap=gap)
    return found


def _chosen_gap(choice: RankChoice | None) -> Gap | None:
    if choice is None or "eigengap" not in choice.criteria:
        return None
    k, curve = choice.criteria["eigengap"], dict(choice.curves.get("eigengap", {}))
    return Gap(k, float(curve[k]), is_ratio=True) if k in curve else None


def _eigenvalues(estimator: Any, model: Any) -> Eigenvalues:
    spectrum = getattr(model, "spectrum_", None)
    if isinstance(spectrum, Spectrum):
        return _of_spectrum(model, spectrum)
    if spectrum is not None:  # of inner products, of either sign
        return _of_pairs(model, spectrum.lam, spectrum.positive + spectrum.negative)
    if _is(model, "LaplacianEigenmaps"):
        return _rising(model)
    if _is(model, "KernelPCA"):
        lam = model.eigenvalues_
        share = model.explained_variance_ratio_
        total = float(lam[0] / share[0]) if len(lam) and share[0] > 0 else None
        return _of_pairs(model, lam, total)
    for name, what in (("eigenvalues_", None), ("explained_variance_", "explained variance")):
        found = getattr(model, name, None)
        if found is not None:
            return _of_pairs(model, np.asarray(found), None, what)
    raise AttributeError(
        f"{public_name(estimator)} has no scree plot, for it knows no eigenvalues. "
        f"{names_with('scree')} do"
    )


def _of_spectrum(model: Any, spectrum: Spectrum) -> Eigenvalues:
    factor = spectrum.sum_w / (spectrum.sum_w - 1.0)
    lam = spectrum.lam * factor
    n_rest = 0 if spectrum.complete else spectrum.d - len(lam)
    rest = None
    if n_rest > 0:
        rest = max(spectrum.total - float(np.sum(spectrum.lam)), 0.0) / n_rest * factor
    noise = model.noise_variance_ if np.ndim(model.noise_variance_) == 0 else None
    return Eigenvalues(
        values=lam,
        kept=int(model.n_components_),
        total=spectrum.total * factor,
        rest=rest,
        n_rest=n_rest,
        noise=None if noise is None else float(noise),
        what="explained variance",
        standardised=model.scale_ is not None,
        gap=_gap_of_spectrum(spectrum),
    )


def _gap_of_spectrum(spectrum: Spectrum) -> Gap | None:
    if spectrum.complete:
        try:
            most = largest_rank(spectrum.d, spectrum.sum_w)
            k, curve = largest_eigengap(spectrum, most)
        except DoesNotApplyError:
            return None
        return Gap(k, curve[k], is_ratio=True)
    # The mean of all others is no eigenvalue: the last known one over it is no gap.
    found = _largest_ratio(spectrum.lam, len(spectrum.lam) - 1)
    return None if found is None else replace(found, is_partial=True)


def _of_pairs(model: Any, lam: Array, total: float | None, what: str | None = None) -> Eigenvalues:
    lam = np.asarray(lam, dtype=np.float64)
    return Eigenvalues(
        values=lam,
        kept=int(getattr(model, "n_components_", len(lam))),
        total=total,
        rest=None,
        n_rest=0,
        noise=None,
        what=what or "eigenvalue of the inner products",
        gap=_largest_ratio(lam, max(len(lam) // 2, 1)),
    )


def _rising(model: Any) -> Eigenvalues:
    """Of a Laplacian, whose small eigenvalues matter: the gap is the largest difference."""
    lam = np.asarray(model.eigenvalues_, dtype=np.float64)
    gap = None
    if len(lam) > 1:
        k = int(np.argmax(np.diff(lam)))
        gap = Gap(k + 1, float(lam[k + 1] - lam[k]), is_ratio=False)
    what = "eigenvalue of the graph Laplacian"
    return Eigenvalues(lam, len(lam), None, None, 0, None, what, gap)


def _largest_ratio(lam: Array, last: int) -> Gap | None:
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


def _is(model: Any, name: str) -> bool:
    return any(cls.__name__ == name for cls in type(model).__mro__)
