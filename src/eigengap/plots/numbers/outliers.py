"""T2 and SPE of rows relative to their limits, and the columns that make outliers improbable.

An incomplete row has fewer degrees of freedom than a complete one, and its own limits: what
can be compared between rows is the value over the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.estimators.novelty import NoveltyDetector
from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.novelty import Distances, noise_ratios
from eigengap.models.gaussian.reference import Reference
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.plots.numbers.counts import count_of
from eigengap.plots.numbers.rows import all_rows, bare

HALVINGS = 80  # of the search for a limit


@dataclass(frozen=True, eq=False)
class OutlierNumbers:
    """How improbable every row is, and why the least probable are."""

    T2: Array  # (m,)
    SPE: Array  # (m,)
    T2_limit: Array  # (m,) that a share alpha of ordinary new rows exceeds
    SPE_limit: Array  # (m,)
    p_value: Array  # (m,) of both together
    flagged: NDArray[np.bool_]  # (m,) what the detector says
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
        T2_limit=_limits(
            lambda v, s, r: law.log_p_T2(Distances(v, v, s, r)), observed, rank, level
        ),
        SPE_limit=_limits(
            lambda v, s, r: law.log_p_SPE(Distances(v, v, s, r)), observed, rank, level
        ),
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
    ratios = noise_ratios(model, np.where(evidence.observed, model.mu, np.nan))
    count = np.ones(len(ratios)) if evidence.count is None else evidence.count
    weight = np.where(np.isnan(ratios), 0.0, count[:, None])
    total = weight.sum(axis=0)
    rho = np.where(
        total > 0, np.sum(np.nan_to_num(ratios) * weight, axis=0) / np.maximum(total, 1e-300), 1.0
    )
    detector = NoveltyDetector(estimator)
    detector.estimator_, detector.core_ = estimator, model
    detector.reference_ = Reference.of(
        model, float(estimator.spectrum_.sum_w), evidence.observed_w, rho
    )
    detector.offset_ = float(np.log(detector.alpha))
    detector.n_features_in_ = estimator.n_features_in_
    if hasattr(estimator, "feature_names_in_"):
        detector.feature_names_in_ = estimator.feature_names_in_
    return detector


def _limits(log_p: Any, observed: NDArray[Any], rank: NDArray[Any], alpha: float) -> Array:
    """(m,) the values with p = alpha, by bisection for each pair of degrees of freedom."""
    pairs, which = np.unique(np.column_stack([observed, rank]), axis=0, return_inverse=True)
    s, r = pairs[:, 0].astype(np.intp), pairs[:, 1].astype(np.intp)
    low, high = np.zeros(len(s)), np.ones(len(s))
    target = np.log(alpha)
    for _ in range(HALVINGS):  # first up to where it is exceeded
        short = log_p(high, s, r) > target
        if not short.any() or float(high.max()) > 1e12:
            break
        high = np.where(short, 2.0 * high, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        below = log_p(middle, s, r) > target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(high[which.ravel()])
