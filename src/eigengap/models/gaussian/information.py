"""Fisher information of the data about the parameters of each feature of a linear-Gaussian model.

Given everything else in its row, x_j is a regression on the latent variables, known up to S_-j,
their posterior covariance without feature j:

    x_j | x_-j ~ N(w_j^T z_-j + mu_j, v),   v = psi_j + w_j^T S_-j w_j.

Over rows z_-j has mean 0 and covariance I - S_-j, so that a row in which j was observed holds the
expected information

    (I - S_-j) / v  about w_j,   1 / v  about mu_j,   1 / (2 v^2)  about psi_j.

It is less than the complete-data information of an M-step, which takes z as known (Louis 1982).
S_-j comes from S by a rank-one downdate. Nothing here depends on the values, only on which cells
were observed, so a sample of rows is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian

# Weight of a row in which a feature is missing relative to one in which it is observed: enough for
# a feature that no sampled row shows, nothing for the others.
MISSING = 1e-3

TINY = 1e-9  # psi - w^T S w relative to psi, below which it is rounding

Noise = Literal["isotropic", "diagonal", "given"]

CHUNK_CELLS = 1 << 18  # rows x features x components that are held at a time


@dataclass(frozen=True, eq=False)
class ObservationPattern:
    """Which cells a model was fitted to, and what was learned from them."""

    observed: NDArray[np.bool_]  # (k, d) in a sample of the rows
    observed_w: Array  # (d,) weighted number of rows, of all, in which each feature was observed
    noise: Noise  # one variance for all features (up to their units), one for each, or none learned
    fits_mean: bool = True
    known: Array | float = 0.0  # (d,) noise variance that was known of a typical cell
    count: Array | None = None  # (k,) how often each row of `observed` counts; None for once


@dataclass(frozen=True, eq=False)
class Information:
    """Expected information of all rows about each feature's parameters."""

    loadings: Array  # (d, q + 1, q + 1) about (w_j, mu_j)
    # (d,) 2 v^2 times that about psi_j, v with what is known: how many residuals it is worth.
    noise: Array


def information(model: LinearGaussian, pattern: ObservationPattern) -> Information:
    """Expected information of the rows in `pattern`, at the model's parameters."""
    learned = model.psi + (pattern.known if pattern.noise == "diagonal" else 0.0)
    model = replace(model.gaussian, psi=model.psi + pattern.known)
    d, q = model.W.shape
    uncertain = np.zeros((d, q, q))  # sum of omega / v S_-j
    precision, noise, total = np.zeros(d), np.zeros(d), np.zeros(d)
    for observed, count, S in _patterns(model, pattern):
        omega = np.where(observed, 1.0, MISSING) * count[:, None]  # (c, d)
        Sw = model.W @ S  # (c, d, q)
        wSw = np.einsum("cjq,jq->cj", Sw, model.W)
        rest = np.where(observed, np.maximum(model.psi - wSw, TINY * model.psi), model.psi)
        v = np.where(observed, model.psi * (model.psi / rest), model.psi + wSw)
        weight = omega / v
        uncertain += np.einsum("cj,cab->jab", weight, S)
        downdate = Sw * np.where(observed, 1.0 / np.sqrt(rest), 0.0)[:, :, None]  # its square root
        weighted = (downdate * weight[:, :, None]).transpose(1, 2, 0)
        uncertain += weighted @ downdate.transpose(1, 0, 2)  # (d, q, c) (d, c, q)
        precision += weight.sum(axis=0)
        noise += np.sum(omega * (learned / v) ** 2, axis=0)
        total += omega.sum(axis=0)
    per_row = pattern.observed_w / total
    loadings = np.zeros((d, q + 1, q + 1))
    loadings[:, :q, :q] = -uncertain
    diagonal = np.arange(q + 1)
    loadings[:, diagonal, diagonal] += precision[:, None]
    return Information(loadings * per_row[:, None, None], noise * per_row)


def _patterns(
    model: LinearGaussian, pattern: ObservationPattern
) -> Iterator[tuple[NDArray[np.bool_], Array, Array]]:
    """Distinct patterns (c, d), how often each occurs (c,), and S (c, q, q), a few at a time."""
    distinct, which = np.unique(pattern.observed, axis=0, return_inverse=True)
    count = np.bincount(which.ravel(), weights=pattern.count).astype(np.float64)
    step = max(1, CHUNK_CELLS // (model.d * max(model.q, 1)))
    for start in range(0, len(distinct), step):
        part = distinct[start : start + step]
        posterior = model.posterior(np.where(part, model.mu, np.nan))
        yield part, count[start : start + step], posterior.cov
