"""What is expected of every cell, given the other cells of its row.

What a cell says about z is taken out of the posterior of its row: a value of u with noise psi is a
site of precision 1 / psi, other cells have the sites of expectation propagation. With m and A the
posterior mean and covariance of t = W_j z + mu_j and T, nu the sites of the column's u, the
prediction without them is that of the cavity,

    t ~ N((I - A T)^-1 (m - A nu), (I - A T)^-1 A),    u = t + e.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array, unpack
from eigengap.models.columns.column import Column
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.models.gaussian.sites import LEAST_LEFT, site_posteriors


@dataclass(frozen=True, eq=False)
class Expected:
    """The Gaussian of the u of one column, given the other cells of each row."""

    kind: Column
    j: int
    own: slice  # of its u
    mean: Array  # (n, w)
    cov: Array  # (n, w, w)


def given_the_others(columns: Columns, model: LinearGaussian, values: Array) -> Iterator[Expected]:
    """Column by column, of rows (n, d) of coded values."""
    rows = columns.encode(values)
    coefficients = Coefficients(model.W, model.mu, model.psi)
    found, sites = site_posteriors(rows, coefficients)
    tau, nu = rows.M / model.psi, rows.M * rows.R / model.psi
    tau[:, rows.at] += sites.tau
    nu[:, rows.at] += sites.nu
    mean, S = found.Z.T @ model.W.T + model.mu, unpack(found.S.T, model.q)
    for j, (kind, own) in enumerate(columns):
        W = model.W[own]
        A = W @ S @ W.T
        left = np.eye(kind.width) - A * tau[:, None, own]
        if kind.width == 1:
            left = np.maximum(left, LEAST_LEFT)
        rest = mean[:, own] - np.einsum("nab,nb->na", A, nu[:, own])
        right = np.concatenate([rest[:, :, None], A], axis=2)
        solved = np.linalg.solve(left, right)
        cov = (solved[..., 1:] + np.swapaxes(solved[..., 1:], 1, 2)) / 2.0
        diagonal = np.arange(kind.width)
        cov[:, diagonal, diagonal] += model.psi[own]
        yield Expected(kind, j, own, solved[..., 0], cov)
