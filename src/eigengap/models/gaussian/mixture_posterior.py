"""Posteriors of all rows under every component of a mixture, and who is responsible for them.

With pi_k the weights and p_k the components' densities of what was seen of a row,

    resp_ik = pi_k p_k(x_i) / sum_l pi_l p_l(x_i)

(Tipping and Bishop 1999, "Mixtures of probabilistic principal component analysers", Eq. 21). One
factorisation per row and component, whether for the use of a mixture or for its fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt

import numpy as np

from eigengap.linalg import Array, packed_size
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.models.gaussian.row_posterior import (
    BlockCoefficients,
    Coefficients,
    RowPosteriors,
    chunk_posteriors,
)

# Squared distance of a component's mean from the rows' common shift, in units of its noise, beyond
# which distances come from residuals: the products would leave fewer than ten digits of them.
FAR = 1e6


@dataclass(frozen=True, eq=False)
class MixtureChunk:
    """One chunk of c rows under K components."""

    rows: slice  # of SeenRows.R
    parts: tuple[RowPosteriors, ...]  # (K,) of z under each component
    resp: Array  # (K, c)
    log_likelihood: Array  # (c,)


def mixture_posteriors(
    rows: ObservedRows, log_weights: Array, coefficients: Sequence[Coefficients], passes: int = 1
) -> Iterator[MixtureChunk]:
    """Posteriors of all rows of a block, chunk by chunk."""
    blocks = [_in_block(rows, c) for c in coefficients]
    for in_rows, in_mask in rows.chunks(_joint_size(coefficients)):
        parts = tuple(chunk_posteriors(rows, in_rows, in_mask, b, passes) for b in blocks)
        log_joint = log_weights[:, None] - 0.5 * np.stack([part.energy for part in parts])
        resp, log_likelihood = normalised(log_joint)
        yield MixtureChunk(in_rows, parts, resp, log_likelihood)


def normalised(log_joint: Array) -> tuple[Array, Array]:
    """Responsibilities (K, c) and log-likelihoods (c,) from ln pi_k p_k(x_i) (K, c)."""
    largest = log_joint.max(axis=0)
    resp = np.exp(log_joint - largest)
    total = resp.sum(axis=0)
    resp /= total
    return resp, largest + np.log(total)


def _in_block(rows: ObservedRows, coefficients: Coefficients) -> BlockCoefficients:
    block = BlockCoefficients.of(rows, coefficients)
    is_far = bool(np.any(coefficients.delta**2 / FAR > coefficients.psi))
    return replace(block, cancels=block.cancels or is_far)


def _joint_size(coefficients: Sequence[Coefficients]) -> int:
    """Rank of one model whose packed precisions take as much room as those of all components."""
    return isqrt(2 * sum(packed_size(c.q) for c in coefficients)) + 1
