"""Rubin's rules: one answer from m imputed tables.

Each table gives an estimate Q_k with its variance U_k. Rubin (1987), section 3.1:

    Q = mean Q_k,   U = mean U_k,   B = variance of the Q_k (divisor m - 1),
    T = U + (1 + 1/m) B,

and (Q - truth) / sqrt(T) is t-distributed with (m - 1) / lambda^2 degrees of freedom, lambda =
(1 + 1/m) B / T. Where the complete table itself has few degrees of freedom nu, they are those of
Barnard and Rubin (1999), Eq. 3: never more than nu.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from eigengap.inference.intervals import require_level
from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class Pooled:
    """An estimate over m imputed tables; arrays have the shape of one table's estimate.

    Attributes
    ----------
    estimate : mean over the tables
    variance : total variance T; the diagonal of `covariance` where matrices were given
    std : its square root
    within, between : U and B
    df : degrees of freedom of the t-distribution
    fraction_missing : share of the information about the estimate that is missing, with
        Rubin's correction for finite m (mice's fmi)
    n_imputations : m
    covariance : total covariance (p, p), None where only variances were given
    """

    estimate: Array
    variance: Array
    within: Array
    between: Array
    df: Array
    fraction_missing: Array
    n_imputations: int
    covariance: Array | None = None

    @property
    def std(self) -> Array:
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of the confidence interval."""
        require_level(level)
        reach = student.ppf(0.5 + level / 2.0, self.df) * self.std
        return self.estimate - reach, self.estimate + reach

    def p_value(self, null: ArrayLike = 0.0) -> Array:
        """Two-sided, of the hypothesis that the truth is `null`."""
        difference = np.abs(self.estimate - np.asarray(null, dtype=np.float64))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(difference > 0, difference / self.std, 0.0)
        return np.asarray(2.0 * student.sf(ratio, self.df))


def pool(estimates: Any, variances: Any, *, df_complete: float = inf) -> Pooled:
    """Pool the estimates from m imputed tables by Rubin's rules.

    Parameters
    ----------
    estimates : array of shape (m,) or (m, p)
        One estimate (a number or p of them) from each table.
    variances : array of shape (m,), (m, p) or (m, p, p)
        Their squared standard errors, or covariance matrices.
    df_complete : float, default=inf
        Degrees of freedom that the analysis would have of a complete table, e.g. n - p of a
        regression.

    Returns
    -------
    Pooled
        `estimate`, `std`, `df`, `interval(level)`, `fraction_missing`, ...

    Examples
    --------
    >>> from eigengap.inference.pooling import pool
    >>> pooled = pool([1.0, 1.2, 1.1], [0.04, 0.05, 0.04], df_complete=50)
    >>> round(float(pooled.estimate), 3), round(float(pooled.std), 3), round(float(pooled.df), 1)
    (1.1, 0.238, 18.2)
    """
    Q = np.asarray(estimates, dtype=np.float64)
    U = np.asarray(variances, dtype=np.float64)
    _require(Q, U, df_complete)
    m = len(Q)
    factor = 1.0 + 1.0 / m
    covariance = None
    if U.ndim == Q.ndim + 1:
        centred = Q - Q.mean(axis=0)
        covariance = U.mean(axis=0) + factor * centred.T @ centred / (m - 1)
        U = np.diagonal(U, axis1=1, axis2=2)
    within, between = U.mean(axis=0), Q.var(axis=0, ddof=1)
    total = within + factor * between
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, factor * between / total, 0.0)  # lambda
        df = _degrees_of_freedom(share, m, df_complete)
        increase = factor * between / within  # r
        # mice: (r + 2 / (df + 3)) / (r + 1); without any variance within, all was missing.
        fraction = np.where(
            np.isfinite(increase), (increase + 2.0 / (df + 3.0)) / (increase + 1.0), 1.0
        )
    fraction = np.where(total > 0, fraction, 0.0)
    return Pooled(
        estimate=Q.mean(axis=0),
        variance=total,
        within=within,
        between=between,
        df=df,
        fraction_missing=fraction,
        n_imputations=m,
        covariance=covariance,
    )


def _degrees_of_freedom(share: Array, m: int, df_complete: float) -> Array:
    """Barnard and Rubin (1999); Rubin's own where df_complete is infinite."""
    old = (m - 1) / share**2  # inf where nothing varies between the tables
    if df_complete == inf:
        return np.asarray(old)
    observed = (df_complete + 1.0) / (df_complete + 3.0) * df_complete * (1.0 - share)
    # Without any variance within the tables, that between them is all there is to go by.
    return np.asarray(np.where(share < 1.0, 1.0 / (1.0 / old + 1.0 / observed), old))


def _require(Q: Array, U: Array, df_complete: float) -> None:
    if Q.ndim not in (1, 2):
        raise ValueError(f"estimates must have shape (m,) or (m, p), got {Q.shape}")
    if len(Q) < 2:
        raise ValueError(
            f"pooling needs at least 2 imputed tables, got {len(Q)}: one does not show how much "
            "the imputations differ"
        )
    shapes = [Q.shape] + ([(*Q.shape, Q.shape[1])] if Q.ndim == 2 else [])
    if U.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(
            f"variances must have shape {wanted} to match the estimates, got {U.shape}"
        )
    if not (np.isfinite(Q).all() and np.isfinite(U).all()):
        raise ValueError("estimates and variances must be finite; one of the analyses failed")
    diagonal = U if U.shape == Q.shape else np.diagonal(U, axis1=1, axis2=2)
    if (diagonal < 0).any():
        raise ValueError("variances must not be negative: give squared standard errors")
    if not df_complete > 0:
        raise ValueError(f"df_complete must be positive, got {df_complete!r}")
