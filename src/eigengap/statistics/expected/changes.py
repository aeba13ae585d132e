"""Expected statistics in other coordinates: of the latent variables, of the columns, in number.

Statistics that are kept while the model moves on must follow it: z~ = (z, 1) becomes T z~ where the
latent axes are moved, and a column r becomes a r + b where its unit or its origin is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eigengap.linalg import Array, packed_indices, unpack
from eigengap.statistics.expected.expected import Expected


def times(expected: Expected, factor: float) -> Expected:
    """Every row counted `factor` times."""
    return Expected(
        A=expected.A * factor,
        B=expected.B * factor,
        squares=expected.squares * factor,
        latent=expected.latent * factor,
        log_likelihood=expected.log_likelihood * factor,
        cells=expected.cells * factor,
    )


def in_other_latents(expected: Expected, mean: Array, root: Array) -> Expected:
    """The statistics of z' with z = mean + root z': mean (q,), root (q, q) regular."""
    q = expected.q
    inverse = np.linalg.inv(root)
    T = np.eye(q + 1)
    T[:q, :q] = inverse
    T[:q, q] = -inverse @ mean
    i, j = packed_indices(q + 1)
    A = T @ unpack(np.ascontiguousarray(expected.A.T), q + 1) @ T.T  # (d, q + 1, q + 1)
    latent = T @ unpack(expected.latent, q + 1) @ T.T
    return replace(
        expected,
        A=np.ascontiguousarray(A[:, i, j].T),
        B=T @ expected.B,
        latent=latent[i, j],
    )


def in_other_units(expected: Expected, a: Array, b: Array) -> Expected:
    """The statistics of a r + b, column by column: a, b (d,)."""
    # The last row of each triangle is sum w m E[(z, 1)], and the last of B is sum w m r.
    ones = expected.A[-(expected.q + 1) :]
    sums = expected.B[-1]
    return replace(
        expected,
        B=a * expected.B + b * ones,
        squares=a**2 * expected.squares + 2.0 * a * b * sums + b**2 * ones[-1],
    )
