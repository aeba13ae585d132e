"""How surprising the cells of a row are, each given those before it, and what was to be expected.

The deviance of a cell is -2 ln p(cell | cells before it), the density that of u where the cell
gives u. Its expected value, variance and third central moment under the model follow from the
same prediction, before the cell is looked at. The sums over the cells of a row

    M = sum_j (s_j - E s_j),   V = sum_j Var s_j,   K = sum_j E (s_j - E s_j)^3

make a test of the row (Dawid 1984, "Statistical theory: the prequential approach"; Seillier-
Moiseiwitsch and Dawid 1993): M has mean 0 whichever cells are missing. A cell that gives u is
Gaussian, with moments 1, 2 and 8 and s_j - E s_j = r_j^2 - 1, so that over p of them M + p is the
squared Mahalanobis distance. In general

    D2 = nu + M sqrt(2 nu / V),   nu = 8 V^3 / K^2

is compared with chi-squared of nu degrees of freedom, which has the same three moments.

The cells that give u are taken first, all at once; the others follow in the order of the columns.
What a cell of evidence says about z is put in by the moments of its tilted distribution (assumed
density filtering, one sweep of expectation propagation).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.columns.column import central_moments
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian import novelty
from eigengap.models.gaussian.evidence import Evidence
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.sites import SiteRows

# A sum whose skewness is smaller is taken for Gaussian: chi-squared of 8 / SKEWNESS^2.
LEAST_SKEWNESS = 0.02
CHUNK = 1 << 20  # numbers (c, q, q) that are held together


@dataclass(frozen=True, eq=False)
class Deviance:
    """Of n rows, D2 and its degrees of freedom; and how many cells of each were observed."""

    D2: Array  # (n,)
    dof: Array  # (n,) 0 where no cell could have been anything else
    observed: Array  # (n,)


def deviances(columns: Columns, model: LinearGaussian, values: Array) -> Deviance:
    """D2 of every row (n, d) of coded values."""
    step = max(64, CHUNK // max(model.q**2, 1))
    parts = [
        _of_rows(columns, model, values[start : start + step])
        for start in range(0, len(values), step)
    ] or [np.empty((3, 0))]
    return Deviance(*np.concatenate(parts, axis=1))


def _of_rows(columns: Columns, model: LinearGaussian, values: Array) -> Array:
    rows = columns.encode(values)
    exact = columns.exact(values)
    state = _State.given(model, exact)
    first = np.count_nonzero(~np.isnan(exact), axis=1).astype(np.float64)
    surplus = state.distance - first
    V, K, observed = 2.0 * first, 8.0 * first, first.copy()
    for j, (kind, own) in enumerate(columns):
        at = np.flatnonzero(rows.observed[:, own].any(axis=1))
        if not kind.has_evidence or not len(at):
            continue
        mean, cov = state.predicted(at, own)
        s = state.put_in(rows, at, own)
        known = ~np.isnan(values[at, j])
        given = kind.given(columns.details(values, j)[at[known]])
        moments = np.empty((3, len(at)))
        moments[:, known] = given.deviance_moments(mean[known], cov[known])
        # Of a value that is known by its limits only the question is whether it lies there.
        within = np.exp(-0.5 * s[~known])[:, None]
        yes_or_no = np.hstack([within, np.maximum(1.0 - within, 1e-300)])
        moments[:, ~known] = central_moments(yes_or_no, -2.0 * np.log(yes_or_no))
        surplus[at] += s - moments[0]
        V[at] += moments[1]
        K[at] += moments[2]
        observed[at] += 1.0
    varies = V > 0.0
    skewness = np.where(varies, K, 0.0) / np.where(varies, V, 1.0) ** 1.5
    dof = np.where(varies, 8.0 / np.maximum(skewness, LEAST_SKEWNESS) ** 2, 0.0)
    dof = np.where(observed == first, first, dof)
    scale = np.sqrt(np.where(varies, 2.0 * dof, 0.0) / np.where(varies, V, 1.0))
    D2 = np.where(observed == first, state.distance, dof + surplus * scale)
    return np.stack([np.maximum(D2, 0.0), dof, observed])


@dataclass(eq=False)
class _State:
    """Posterior of z of some rows, as cells are put in."""

    model: LinearGaussian
    Z: Array  # (n, q)
    S: Array  # (n, q, q)
    distance: Array  # (n,) squared, of the cells that gave u

    @classmethod
    def given(cls, model: LinearGaussian, X: Array) -> _State:
        Z, S = np.zeros((len(X), model.q)), np.empty((len(X), model.q, model.q))
        for part in model.row_posteriors(X):
            Z[part.at] = part.mean
            S[part.at] = part.covariances()
        return cls(model, Z, S, novelty.squared_distance(model, X))

    def predicted(self, at: NDArray[np.intp], own: slice) -> tuple[Array, Array]:
        """Mean (c, w) and covariance (c, w, w) of some u."""
        W = self.model.W[own]
        cov = W @ self.S[at] @ W.T
        diagonal = np.arange(W.shape[0])
        cov[:, diagonal, diagonal] += self.model.psi[own]
        return self.Z[at] @ W.T + self.model.mu[own], cov

    def put_in(self, rows: SiteRows, at: NDArray[np.intp], own: slice) -> Array:
        """(c,) -2 ln p of the cells in one column of rows `at`, which they then count in."""
        deviance = np.zeros(len(at))
        evidence = rows.evidence.take(at)
        for k in range(own.start, own.stop):
            w, psi = self.model.W[k], self.model.psi[k]
            along = self.S[at] @ w  # (c, q)
            mean = self.Z[at] @ w + self.model.mu[k]
            variance = along @ w + psi
            exact = rows.M[at, k] > 0
            m = int(np.searchsorted(rows.at, k))
            one = Evidence(
                evidence.is_count[m : m + 1],
                evidence.first[:, m : m + 1],
                evidence.second[:, m : m + 1],
                evidence.shape[m : m + 1],
            )
            found = one.tilted(mean[:, None], variance[:, None])
            known = one.informative[:, 0]
            r = np.where(exact, rows.R[at, k] - mean, 0.0)
            deviance += np.where(exact, r**2 / variance + np.log(2.0 * pi * variance), 0.0)
            deviance += np.where(known, -2.0 * found.log_mass[:, 0], 0.0)
            u = np.where(exact, rows.R[at, k], found.mean[:, 0])
            left = np.where(exact, 0.0, found.variance[:, 0] / variance)  # 1 where nothing is said
            gain = along / variance[:, None]
            self.Z[at] += gain * (u - mean)[:, None]
            self.S[at] -= (gain * (1.0 - left)[:, None])[:, :, None] * along[:, None, :]
        return np.asarray(deviance)
