"""Posterior of the latent variables of many rows at once, by matrix products.

For a row with seen set o and residual r = x_o - mu_o (Tipping and Bishop 1999, Eq. 6, with a
noise variance per feature and the gaps left out):

    P = I + W_o^T Psi_o^-1 W_o,   S = P^-1,   z = S W_o^T Psi_o^-1 r
    -2 ln p(x_o) = sum_o (ln 2 pi psi_j + r_j^2 / psi_j) + ln|P| - z^T P z

Each sum over o is linear in per-feature coefficients; one product with the mask and one with the
values give them for all rows. Another noise model supplies other coefficients to the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np

from eigengap.compiled import factorise
from eigengap.linalg import Array, pack_outer, packed_size, unpack
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.runtime.scratch import Scratch

# Signal to noise beyond which r^T Psi^-1 r - z^T P z, a small difference of large numbers, is
# computed from the residuals instead, and z refined by them: a few more products of size n d q.
CANCELS = 1e3
REFINEMENTS = 5  # at most; each gains a factor of about 1 / (eps snr^2)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What each feature contributes to the posterior of a row in which it was seen."""

    on_mask: Array  # (d, K + q + 2): w~ w~^T / psi packed, w~ = (w, delta) | ln 2 pi psi
    on_values: Array  # (d, q + 1): w / psi | delta / psi
    W: Array  # (d, q)
    delta: Array  # (d,)
    psi: Array  # (d,)
    is_certain: bool  # whether W and delta are points, not distributions

    @property
    def q(self) -> int:
        return int(self.W.shape[1])

    @classmethod
    def of(cls, W: Array, delta: Array, psi: Array, spread: Array | None = None) -> Coefficients:
        """Coefficients of x = W z + delta + noise(psi), x measured from the rows' shift.

        `spread` (K + q + 1, d) holds the packed covariance of each (w_j, delta_j) where they are
        uncertain: E[w~ w~^T] takes the place of w~ w~^T (Bishop 1999, variational PCA).
        """
        inv = 1.0 / psi
        augmented = np.column_stack([W, delta])
        i, j = np.tril_indices(W.shape[1] + 1)
        products = augmented[:, i] * augmented[:, j]  # packed w~ w~^T: w w^T | w delta | delta^2
        if spread is not None:
            products += spread.T
        on_mask = np.column_stack([products * inv[:, None], np.log(psi) + log(2 * pi)])
        return cls(
            on_mask=on_mask,
            on_values=augmented * inv[:, None],
            W=W,
            delta=delta,
            psi=psi,
            is_certain=spread is None,
        )

    def signal_to_noise(self) -> float:
        """Largest w_j^T w_j / psi_j."""
        return float(np.max(np.einsum("jq,jq->j", self.W, self.W) / self.psi, initial=0.0))


@dataclass(frozen=True, eq=False)
class RowPosteriors:
    """Posteriors of one chunk of rows, rows innermost. c rows, u = c or, where shared, 1."""

    rows: slice  # of SeenRows.R
    mask_rows: slice  # of SeenRows.M
    S: Array  # (K, u) packed covariances, the first K rows of `work`
    work: Array  # (K + q + 1, u); whoever needs it may overwrite it, S included
    Z: Array  # (q, c) means
    log_norm: Array  # (u,) ln |2 pi C_oo|, which depends on what was seen alone
    distance: Array  # (c,) r^T C_oo^-1 r, Mahalanobis' squared

    @property
    def energy(self) -> Array:
        """(c,) -2 ln p(x_o)."""
        return np.asarray(self.log_norm + self.distance)


def row_posteriors(
    rows: ObservedRows, coefficients: Coefficients, passes: int = 1, scratch: Scratch | None = None
) -> Iterator[RowPosteriors]:
    """Posteriors of all rows of a block, chunk by chunk.

    `passes` is how often the caller expects to do this: it decides whether compiling pays.
    With `scratch` a chunk's `S` and `work` are valid until the next one is asked for.
    """
    prepared = BlockCoefficients.of(rows, coefficients)
    for in_rows, in_mask in rows.chunks(coefficients.q):
        yield chunk_posteriors(rows, in_rows, in_mask, prepared, passes, scratch)


@dataclass(frozen=True, eq=False)
class BlockCoefficients:
    """A model's coefficients as one block of rows uses them."""

    all: Coefficients
    on_incomplete: Array  # (g, K + q + 2) of the columns with a gap in the block
    everywhere: Array | None  # (K + q + 2,) summed over the others; None where there are none
    cancels: bool  # whether distances must come from residuals

    @classmethod
    def of(cls, rows: ObservedRows, coefficients: Coefficients) -> BlockCoefficients:
        complete = rows.everywhere()
        return cls(
            all=coefficients,
            on_incomplete=coefficients.on_mask[rows.incomplete],
            everywhere=coefficients.on_mask[complete].sum(axis=0) if complete.any() else None,
            cancels=coefficients.is_certain and coefficients.signal_to_noise() > CANCELS,
        )


def chunk_posteriors(
    rows: ObservedRows,
    in_rows: slice,
    in_mask: slice,
    block: BlockCoefficients,
    passes: int = 1,
    scratch: Scratch | None = None,
) -> RowPosteriors:
    """Posteriors of one of `rows.chunks`."""
    coefficients = block.all
    out = None
    if scratch is not None:
        out = scratch.array("sums", (block.on_incomplete.shape[1], in_mask.stop - in_mask.start))
    sums = product(block.on_incomplete, rows.M[in_mask], out)  # (K + q + 2, u)
    if block.everywhere is not None:
        sums += block.everywhere[:, None]
    projected = product(coefficients.on_values, rows.R[in_rows])  # (q + 1, c)
    Z, log_det, distance = solve(sums, projected, passes)
    if block.cancels:
        R = rows.R[in_rows]
        values = (R if isinstance(R, np.ndarray) else R.toarray()) - coefficients.delta
        inverse_noise = _observed(rows, in_mask) / coefficients.psi
        S = sums[: packed_size(coefficients.q)]
        Z, distance = from_residuals(values, inverse_noise, coefficients.W, S, Z)
    else:
        distance += _row_squares(rows, in_rows, coefficients.psi)
    return RowPosteriors(
        rows=in_rows,
        mask_rows=in_mask,
        S=sums[: packed_size(coefficients.q)],
        work=sums[:-1],
        Z=Z,
        log_norm=log_det + sums[-1],
        distance=distance,
    )


def solve(sums: Array, projected: Array, passes: int) -> tuple[Array, Array, Array]:
    """Z (q, c), ln|P| (u,) and r^T C_oo^-1 r less sum_o r_j^2 / psi_j (c,).

    `sums` (K + q + 1 or more, u) holds the sums over o of w~ w~^T / psi, packed, and gets S in
    place of the first K; `projected` (q + 1, c) those of w~ r / psi. u = c, or 1 where shared.
    """
    q = len(projected) - 1
    K = packed_size(q)
    S = sums[:K]
    S[np.cumsum(np.arange(1, q + 1)) - 1] += 1.0  # the diagonal
    b = projected[:q] - sums[K : K + q]
    if S.shape[1] == b.shape[1]:
        Z, log_det = factorise(S, b, passes=passes)
    else:
        _, log_det = factorise(S, np.zeros((q, 1)), passes=passes)
        Z = unpack(S[:, 0], q) @ b
    return Z, log_det, sums[K + q] - 2.0 * projected[q] - np.einsum("qc,qc->c", b, Z)


def _observed(rows: ObservedRows, in_mask: slice) -> Array:
    """(u, d) 1 where seen."""
    observed = np.ones((in_mask.stop - in_mask.start, rows.d))
    mask = rows.M[in_mask]
    observed[:, rows.incomplete] = mask if isinstance(mask, np.ndarray) else mask.toarray()
    return observed


def product(coefficients: Array, rows: Any, out: Array | None = None) -> Array:
    """coefficients^T rows^T, (d, k) and (c, d) -> (k, c), C-contiguous float64.

    Dense ones are written to `out`, if given.
    """
    if isinstance(rows, np.ndarray):
        return np.matmul(coefficients.T, rows.T.astype(np.float64, copy=False), out=out)
    return np.ascontiguousarray((rows @ coefficients).T)


def _row_squares(rows: ObservedRows, part: slice, psi: Array) -> Array:
    """(c,) sum_j R_ij^2 / psi_j."""
    if np.all(psi == psi[0]):
        return np.asarray(rows.row_squares[part] / psi[0])
    R = rows.R[part]
    if isinstance(R, np.ndarray):
        return np.asarray(np.einsum("ij,ij,j->i", R, R, 1.0 / psi, dtype=np.float64))
    return np.asarray(R.power(2) @ (1.0 / psi))


def from_residuals(
    values: Array, inverse_noise: Array, W: Array, S: Array, Z: Array
) -> tuple[Array, Array]:
    """Refined means (q, c), and (c,) sum_o (r - w^T z)^2 / psi, plus |z|^2.

    `values` (c, d) are r; `inverse_noise` (c or 1, d) is 1 / psi where seen, else 0.
    The solution of P z = b carries the rounding of b, which is of the size of the signal over the
    noise. The gradient W^T Psi^-1 (r - W z) - z, from residuals, is small and so is its rounding:
    Newton steps with it (iterative refinement) recover the lost digits.
    """
    for _ in range(REFINEMENTS):
        weighted = (values - Z.T @ W.T) * inverse_noise  # (c, d)
        step = times_packed(S, (weighted @ W).T - Z)
        Z = Z + step
        if np.max(np.abs(step), initial=0.0) <= 1e-11 * np.max(np.abs(Z), initial=1.0):
            break
    residual = values - Z.T @ W.T
    terms = residual**2 * inverse_noise
    return Z, np.asarray(terms.sum(axis=1) + np.einsum("qc,qc->c", Z, Z))


def times_packed(S: Array, B: Array) -> Array:
    """S_i b_i for packed symmetric matrices S (K, c or 1) and vectors B (q, c)."""
    q = len(B)
    if S.shape[1] != B.shape[1]:
        return np.asarray(unpack(S[:, 0], q) @ B)
    product = np.zeros_like(B)
    for i in range(q):
        row = S[i * (i + 1) // 2 :][: i + 1]  # (i + 1, c), entries (i, 0..i)
        product[i] += np.einsum("jc,jc->c", row, B[: i + 1])
        product[:i] += row[:i] * B[i]
    return product


def projected_variance(W: Array, S: Array) -> Array:
    """w_j^T S_i w_j for all features and packed covariances: (d, q), (K, u) -> (d, u)."""
    i, j = np.tril_indices(W.shape[1])
    return np.asarray((pack_outer(W) * np.where(i == j, 1.0, 2.0)) @ S)
