"""Columns against components: correlations, correlation ratios, and the categories of a column.

What FactoMineR reports of PCA, MCA and FAMD (Pages 2014, "Multiple Factor Analysis by Example Using
R"; Le, Josse and Husson 2008), for any scores t of rows of weight w. Of a column with levels k,
observed in rows of weight w_k, N = sum w_k, and with m and s^2 mean and variance (divisor N) of the
scores of these rows:

    barycentre  b_k = mean of t over the rows of the level
    eta^2       sum_k w_k (b_k - m)^2 / (N s^2), the share of the variance between levels
    v-test      (b_k - m) / sqrt(s^2 (N - w_k) / ((N - 1) w_k)): about N(0, 1) were the level drawn
                at random (Lebart, Morineau and Piron 1995)

A score is the mean of a posterior with covariance S_i. The rows of a level then vary by
Cov(t) + mean S_i, the law of total covariance, and barycentres by Cov(t) / w_k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtr

from eigengap.linalg import Array

LEAST = 1e-14  # of a variance relative to the square of the mean: below it is rounding


@dataclass(frozen=True, eq=False)
class LevelScores:
    """The scores of the rows of each level of one column; NaN of a level without rows."""

    weight: Array  # (K,) of the rows
    barycentre: Array  # (K, q)
    cov: Array  # (K, q, q) of the rows of a level: scores and their uncertainty
    cov_barycentre: Array  # (K, q, q)
    eta2: Array  # (q,)
    p_value: Array  # (q,) of the F test that all barycentres are one
    v_test: Array  # (K, q)
    estimate: Array  # (K, q) barycentre less the plain mean of all barycentres
    p_level: Array  # (K, q) of the correlation of being of the level with the score

    @classmethod
    def of(
        cls,
        codes: NDArray[np.intp],
        K: int,
        T: Array,
        unsure: Array | None = None,
        w: Array | None = None,
    ) -> LevelScores:
        """Codes (n,) in 0, ..., K - 1, -1 where missing; scores (n, q).

        `unsure` (K, q, q) is the mean covariance of the scores of the rows of each level.
        """
        kept = codes >= 0
        weight = np.ones(len(codes)) if w is None else w
        codes, T, weight = codes[kept], T[kept], weight[kept]
        N, q = float(weight.sum()), T.shape[1]
        mean, total = _centred(T, weight)
        R = T - mean
        of_level = np.bincount(codes, weight, minlength=K).astype(np.float64)
        some = np.where(of_level > 0.0, of_level, np.nan)[:, None]
        sums = np.zeros((K, q))
        np.add.at(sums, codes, weight[:, None] * R)
        away = sums / some  # b_k - m
        cov = np.full((K, q, q), np.nan)
        within = np.full((K, q, q), np.nan)
        for k in np.flatnonzero(of_level > 0.0).tolist():
            rows = codes == k
            D, own = R[rows] - away[k], weight[rows]
            free = of_level[k] - 1.0  # weights are frequencies
            within[k] = (own * D.T) @ D / free if free > 0.0 else np.nan
            cov[k] = within[k] + (0.0 if unsure is None else unsure[k])
        between = np.nansum(some * away**2, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            eta2 = np.clip(between / total, 0.0, 1.0)
            used = int(np.count_nonzero(of_level))
            ratio = (eta2 / (used - 1)) / ((1.0 - eta2) / (N - used))
            p = fdtrc(used - 1, N - used, ratio) if 1 < used < N else np.full(q, np.nan)
            r = away * np.sqrt(some / ((N - some) * (total / N)))  # of the indicator
        return cls(
            weight=of_level,
            barycentre=mean + away,
            cov=cov,
            cov_barycentre=within / some[:, :, None],
            eta2=np.where(total > 0.0, eta2, np.nan),
            p_value=np.where(total > 0.0, p, np.nan),
            v_test=r * np.sqrt(N - 1.0),
            estimate=away - np.nanmean(away, axis=0) if used else away,
            p_level=p_of_correlation(r, N),
        )


def correlation(x: Array, T: Array, w: Array | None = None) -> tuple[Array, Array, float]:
    """Of x (n,), NaN where missing, with each score: r (q,), its p-value, and the rows' weight."""
    kept = ~np.isnan(x)
    weight = np.ones(len(x)) if w is None else w
    x, T, weight = x[kept], T[kept], weight[kept]
    N = float(weight.sum())
    mean, total = _centred(T, weight)
    at, of_x = _centred(x[:, None], weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (x - at) * np.sqrt(weight) / np.sqrt(of_x)
        r = z @ ((T - mean) * np.sqrt(weight)[:, None] / np.sqrt(total))
    r = np.clip(np.where((total > 0.0) & (of_x > 0.0), r, np.nan), -1.0, 1.0)
    return r, p_of_correlation(r, N), N


def p_of_correlation(r: Array, N: float) -> Array:
    """Two-sided, by Student's t at N - 2 degrees of freedom."""
    if N <= 2.0:
        return np.full(np.shape(r), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(r) * np.sqrt((N - 2.0) / (1.0 - np.minimum(r**2, 1.0)))
    return np.asarray(2.0 * stdtr(N - 2.0, -t))


def _centred(T: Array, weight: Array) -> tuple[Array, Array]:
    """Mean and sum of squares about it (q,); 0 where only rounding is left of it."""
    N = float(weight.sum())
    if N == 0.0:
        return np.zeros(T.shape[1]), np.zeros(T.shape[1])
    mean = weight @ T / N
    squares = weight @ (T - mean) ** 2
    return mean, np.where(squares > LEAST * N * mean**2, squares, 0.0)
