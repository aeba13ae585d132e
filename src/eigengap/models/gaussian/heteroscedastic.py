"""Row posteriors where cells come with standard deviations of their own.

Cell (i, j) has the noise variance v_ij = psi_j + s_ij^2: the model's own scatter, and what is known
of the measurement. The mask of `row_posterior` becomes the weights V_ij = 1 / v_ij, 0 where unseen:

    P_i = I + sum_j V_ij w_j w_j^T,   z_i = P_i^-1 sum_j V_ij r_ij w_j
    -2 ln p(x_i) = sum_j (ln 2 pi v_ij + V_ij r_ij^2) + ln|P_i| - z_i^T P_i z_i

No two rows share a precision, so nothing is grouped, and V changes with psi: it is made anew in
each pass, a piece at a time that stays in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array, pack_outer, packed_size
from eigengap.models.gaussian.row_posterior import (
    CANCELS,
    RowPosteriors,
    from_residuals,
    product,
    solve,
)

CHUNK_BYTES = 2 << 20  # of one chunk's V, and of its packed precisions
LANES = 128  # rows come in multiples of this, as many as the compiled factorisation takes at a time
LOG_RANGE = 600.0  # |ln| of a product of variances that neither over- nor underflows


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """A block of rows with known variances of cells, prepared for the products of an E-step."""

    R: NDArray[Any]  # (c, d) values - shift, 0 where unseen
    M: NDArray[Any]  # (c, d) 1 where seen
    known: Array  # (c, d) s^2; 1 where unseen, whose logarithm is 0
    least: Array  # (d,) smallest s^2 of each column's seen cells
    largest: float  # s^2
    order: NDArray[np.intp]  # (c,) position in the block of each row of R
    weight: Array | None  # (c,)
    row_cells: NDArray[np.intp]  # (c,) seen cells of each row
    observed: Array  # (d,) weighted number of rows in which each column was seen
    cells: float  # weighted number of seen cells

    @property
    def d(self) -> int:
        return int(self.R.shape[1])

    def chunks(self, q: int) -> Iterator[slice]:
        step = CHUNK_BYTES // (8 * max(packed_size(q + 1), self.d))
        step = max(step // LANES, 1) * LANES
        for start in range(0, len(self.R), step):
            yield slice(start, min(start + step, len(self.R)))


def prepare_noisy_rows(
    values: NDArray[Any],  # (c, d), NaN where unseen
    cell_sd: Array,  # (c, d), 0 where nothing is known
    weight: Array | None,
    shift: Array,  # (d,)
    scale: Array | None,  # (d,) unit of each column, or None for 1
) -> NoisyRows:
    """Arrange the rows of one block; those of weight 0 are left out."""
    order = np.arange(len(values)) if weight is None else np.flatnonzero(weight > 0)
    if len(order) < len(values):
        values, cell_sd = values[order], cell_sd[order]
    observed = ~np.isnan(values)
    R = values - shift
    deviations = cell_sd
    if scale is not None:
        R /= scale
        deviations = cell_sd / scale
    np.copyto(R, 0.0, where=~observed)
    known = np.where(observed, deviations**2, 1.0)
    counts = observed.sum(axis=1)
    w = None if weight is None else weight[order]
    return NoisyRows(
        R=R,
        M=observed.astype(np.float64),
        known=known,
        least=np.min(known, axis=0, where=observed, initial=np.inf),
        largest=float(np.max(known, initial=1.0)),
        order=order,
        weight=w,
        row_cells=counts,
        observed=np.asarray(observed.sum(axis=0) if w is None else w @ observed, dtype=np.float64),
        cells=float(counts.sum() if w is None else counts @ w),
    )


@dataclass(frozen=True, eq=False)
class NoisyPosteriors:
    """Posteriors of one chunk of rows, and the weights of their cells."""

    part: RowPosteriors
    V: Array  # (c, d) 1 / (psi + s^2), 0 where unseen
    VR: Array  # (c, d) V * R


def noisy_posteriors(
    rows: NoisyRows, W: Array, delta: Array, psi: Array, passes: int = 1
) -> Iterator[NoisyPosteriors]:
    """Posteriors of all rows of a block under x = W z + delta + noise, chunk by chunk."""
    augmented = np.column_stack([W, delta])
    products = pack_outer(augmented)  # (d, K + q + 1)
    signal = np.einsum("jq,jq->j", W, W)
    cancels = bool(np.any(signal > CANCELS * (psi + rows.least)))
    together = _safe_factors(rows, psi)
    K = packed_size(W.shape[1])
    for part in rows.chunks(W.shape[1]):
        M, R = rows.M[part], rows.R[part]
        v = M * psi
        v += rows.known[part]
        log_norm = _log_products(v, together) + rows.row_cells[part] * log(2 * pi)
        V = np.divide(M, v, out=v)
        VR = V * R
        sums = product(products, V)  # (K + q + 1, c)
        Z, log_det, distance = solve(sums, product(augmented, VR), passes)
        if cancels:
            Z, distance = from_residuals(R - delta, V, W, sums[:K], Z)
        else:
            distance += np.einsum("ij,ij->i", VR, R)
        posteriors = RowPosteriors(
            rows=part,
            mask_rows=part,
            S=sums[:K],
            work=sums,
            Z=Z,
            log_norm=log_norm + log_det,
            distance=distance,
        )
        yield NoisyPosteriors(posteriors, V, VR)


def _safe_factors(rows: NoisyRows, psi: Array) -> int:
    """How many variances can be multiplied before a logarithm is taken."""
    least = float(np.min(psi + rows.least, initial=1.0))
    largest = rows.largest + float(np.max(psi, initial=0.0))
    return max(1, min(16, rows.d, int(LOG_RANGE / max(-log(least), log(largest), 1e-9))))


def _log_products(v: Array, together: int) -> Array:
    """Sums of ln v over each row of v (c, d): logarithms are dear, so few are taken."""
    width = v.shape[1] // together
    slab = v[:, :width].copy()
    for k in range(1, together):
        slab *= v[:, k * width : (k + 1) * width]
    rest = v[:, together * width :]
    return np.asarray(np.log(slab).sum(axis=1) + np.log(rest).sum(axis=1))
