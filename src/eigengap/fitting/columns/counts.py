"""How far a column of counts is from Poisson, and the sizes of rows.

The noise of u spreads counts: a Poisson column is Poisson-log-normal, with the variance
m + m^2 (exp(psi) - 1). A negative binomial has another shape, more small counts and fewer large
ones. What the other columns say of the u of a count is N(a, b), the cavity of its site; the
dispersion, a shift of a and the noise variance that is added to b maximise

    sum ln int p(y | size exp(u), dispersion) N(u; a + shift, b + psi) du,

by which expectation propagation's likelihood depends on them. The dispersion is taken where that
repays it. What is known of u matters: the distribution of a column alone would be asked to be
log-normal where the scores of the rows are not Gaussian, and a dispersion would make up for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from eigengap.linalg import Array
from eigengap.models.gaussian.evidence import Counts

MOST_CELLS = 4000  # that the dispersion is learned from
FEWEST_CELLS = 30  # fewer do not tell the shapes apart
LEAST, MOST = 1e-3, 1e3  # variances of u that are looked for
TRIED = tuple(0.02 * 4.0**k for k in range(6))  # dispersions; fewer do not change a prediction
XATOL = 0.02  # of ln dispersion
LEAST_SIZE = 0.5  # counts: of a row that has none


def learned_dispersion(
    y: Array,
    log_size: Array | None = None,
    mean: Array | None = None,
    variance: Array | None = None,
) -> float:
    """Of the negative binomial of largest likelihood, at a price of ln(n) / 2; 0 is Poisson.

    `mean` and `variance` (n,) are what else is known of each u; by default nothing.
    """
    none = np.zeros(len(y))
    cells = np.stack([none if x is None else x for x in (y, log_size, mean, variance)])
    if y.shape[0] > MOST_CELLS:  # every so manieth
        cells = cells[:, np.linspace(0, len(y) - 1, MOST_CELLS).astype(np.intp)]
    if cells.shape[1] < FEWEST_CELLS or np.ptp(cells[0]) == 0.0:
        return 0.0
    cells, times = np.unique(cells, axis=1, return_counts=True)
    counts, sizes, known, spread = cells
    n = int(times.sum())

    def minus(p: Array, shape: float) -> tuple[float, Array]:
        """Less the log-likelihood at a shift and ln v, and its derivatives."""
        at, v = known + p[0], spread + np.exp(p[1])
        rows = Counts(counts, sizes, np.full(len(times), shape))
        mass, u, of_u = rows.tilted(at, v)
        by_mean = (u - at) / v
        by_v = 0.5 * (by_mean**2 + of_u / v**2 - 1.0 / v)
        by_log_v = np.exp(p[1]) * (times @ by_v)
        return -float(times @ mass), -np.array([times @ by_mean, by_log_v])

    def profiled(shape: float, start: Array) -> tuple[float, Array]:
        bounds = [(None, None), (log(LEAST), log(MOST))]
        found = minimize(minus, start, (shape,), "L-BFGS-B", jac=True, bounds=bounds)
        return -float(found.fun), found.x

    shift = log(float(times @ counts) / float(times @ np.exp(known + sizes + spread / 2.0)))
    poisson, at = profiled(inf, np.array([shift - 0.15, log(0.3)]))
    scores = []
    for each in TRIED:  # v falls as the dispersion takes its part
        score, at = profiled(1.0 / each, at)
        scores.append(score)
    top = int(np.argmax(scores))
    if scores[top] <= poisson + log(n) / 2.0:
        return 0.0
    around = log(TRIED[max(top - 1, 0)]), log(TRIED[min(top + 1, len(TRIED) - 1)])
    best = minimize_scalar(
        lambda x: -profiled(exp(-x), at)[0],
        bounds=around,
        method="bounded",
        options={"xatol": XATOL},
    )
    return exp(float(best.x))


@dataclass(frozen=True, eq=False)
class Sizes:
    """The size of each row: its exposure, or its count in all over that of an average row."""

    at: NDArray[np.intp]  # (k,) columns
    mean: Array | None  # (k,) of their counts; None where the one column holds the sizes

    @classmethod
    def total(cls, at: NDArray[np.intp], values: Array, frequency: Array | None = None) -> Sizes:
        counts = values[:, at]
        weight = np.where(np.isnan(counts), 0.0, 1.0 if frequency is None else frequency[:, None])
        return cls(at, np.sum(weight * np.nan_to_num(counts), axis=0) / np.sum(weight, axis=0))

    def log_size(self, values: Array) -> Array:
        """(c,) of rows (c, d), NaN where it is not known.

        Of a row with missing counts: what it has, over what an average row has in these columns.
        """
        x = values[:, self.at]
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.mean is None:
                return np.where(x[:, 0] > 0.0, np.log(x[:, 0]), np.nan)
            observed = ~np.isnan(x)
            expected = observed @ self.mean
            total = np.maximum(np.where(observed, x, 0.0).sum(axis=1), LEAST_SIZE)
            return np.where(expected > 0.0, np.log(total / expected), np.nan)
