"""Posterior of the latent variables of many rows at once, by matrix products: the E-step.

For a row with observed values o and residual r = x_o - mu_o (Tipping and Bishop 1999, Eq. 6, with a
noise variance per feature and the missing values left out):

    P = I + W_o^T Psi_o^-1 W_o,   S = P^-1,   z = S W_o^T Psi_o^-1 r
    -2 ln p(x_o) = sum_o (ln 2 pi psi_j + r_j^2 / psi_j) + ln|P| - z^T P z

Each sum over o is linear in per-feature coefficients; one product with the mask and one with the
values give them for all rows. Another noise model supplies other coefficients to the same code.

Where value (i, j) has a known measurement error s_ij, its noise variance is v_ij = psi_j + s_ij^2:
the precisions V_ij = 1 / v_ij, 0 where missing, take the place of the mask over psi. They change
with psi, hence are computed in each pass, for a chunk at a time that stays in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np

from eigengap.compiled import factorise
from eigengap.linalg import (
    Array,
    pack_outer,
    packed_diagonal,
    packed_size,
    twice_off_diagonal,
    unpack,
)
from eigengap.models.gaussian.observed_rows import Chunk, ObservedRows
from eigengap.models.gaussian.posterior import RowPosteriors
from eigengap.runtime.scratch import Scratch

# Beyond this signal to noise, or this distance of the mean from the rows' shift in units of the
# noise, r^T Psi^-1 r - z^T P z is a small difference of large numbers. It is then computed from the
# residuals, and z refined by them: a few more products of size n d q.
CANCELS, FAR = 1e3, 1e3
REFINEMENTS = 5  # at most; each gains a factor of about 1 / (eps snr^2)

LOG_RANGE = 600.0  # |ln| of a product of variances that neither over- nor underflows


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What each feature adds to the posterior of a row in which it is observed.

    The model is x = W z + delta + noise(psi), x measured from the rows' shift; w~ = (w, delta).
    Where (w_j, delta_j) are uncertain, E[w~ w~^T] takes the place of w~ w~^T (Bishop 1999,
    variational PCA).
    """

    W: Array  # (d, q)
    delta: Array  # (d,)
    psi: Array  # (d,)
    covariances: Array | None = None  # (K + q + 1, d) packed, of each (w_j, delta_j)

    @property
    def q(self) -> int:
        return int(self.W.shape[1])

    @property
    def augmented(self) -> Array:
        """(d, q + 1) w~."""
        return np.column_stack([self.W, self.delta])

    @cached_property
    def on_values(self) -> Array:
        """(d, q + 1) w~ / psi."""
        return self.augmented / self.psi[:, None]

    @cached_property
    def on_mask(self) -> Array:
        """(d, K + q + 2): w~ w~^T / psi packed, which is w w^T | w delta | delta^2; ln 2 pi psi."""
        products = pack_outer(self.augmented)
        if self.covariances is not None:
            products += self.covariances.T
        return np.column_stack([products / self.psi[:, None], np.log(2 * pi * self.psi)])


def row_posteriors(
    rows: ObservedRows, coefficients: Coefficients, passes: int = 1, scratch: Scratch | None = None
) -> Iterator[tuple[Chunk, RowPosteriors]]:
    """Posteriors of all rows of a block, chunk by chunk.

    `passes` is how often the caller expects to do this: it decides whether compiling pays.
    With `scratch` the covariances of a chunk are valid until the next one is asked for.
    """
    block = BlockCoefficients.of(rows, coefficients)
    for chunk in rows.chunks(coefficients.q):
        yield chunk, block.posteriors(chunk, passes, scratch)


@dataclass(frozen=True, eq=False)
class BlockCoefficients:
    """A model's coefficients as the rows of one block use them."""

    model: Coefficients
    on_incomplete: Array  # (g, K + q + 2) of the columns with missing values in the block
    on_complete: Array  # (K + q + 2,) summed over the others
    cancels: bool  # whether distances must come from residuals
    together: int  # variances that can be multiplied before a logarithm is taken

    @classmethod
    def of(cls, rows: ObservedRows, model: Coefficients) -> BlockCoefficients:
        least = model.psi + rows.least_known
        signal = np.einsum("jq,jq->j", model.W, model.W)
        small = (signal / CANCELS > least) | (np.abs(model.delta) / FAR > np.sqrt(least))
        cancels = model.covariances is None and bool(np.any(small))
        if rows.known is not None:
            largest = rows.largest_known + float(np.max(model.psi, initial=0.0))
            log_size = max(-log(np.min(least, initial=1.0)), log(largest), 1e-9)
            together = max(1, min(16, rows.d, int(LOG_RANGE / log_size)))
            return cls(model, np.empty((0, 0)), np.empty(0), cancels, together)
        on_incomplete = model.on_mask[rows.incomplete]
        on_complete = model.on_mask[rows.complete_columns()].sum(axis=0)
        return cls(model, on_incomplete, on_complete, cancels, together=1)

    def posteriors(
        self, chunk: Chunk, passes: int = 1, scratch: Scratch | None = None
    ) -> RowPosteriors:
        """Posteriors of one of the chunks of the block."""
        model = self.model
        if chunk.known is None:
            V = None
            sums = self._sums(chunk, scratch)
            projected = product(model.on_values, chunk.R)  # (q + 1, c)
            log_noise, squares = sums[-1], _row_squares(chunk, model.psi)
        else:
            V, log_noise = self._precisions(chunk)
            VR = V * chunk.R
            sums = product(pack_outer(model.augmented), V)
            projected = product(model.augmented, VR)
            squares = np.einsum("ij,ij->i", VR, chunk.R)
        Z, log_det, distance = solve(sums, projected, passes)
        distance += squares
        S = sums[: packed_size(model.q)]
        if self.cancels:
            inverse_noise = chunk.mask() / model.psi if V is None else V
            residuals = chunk.values() - model.delta
            Z, distance = from_residuals(residuals, inverse_noise, model.W, S, Z)
        log_norm = log_det + log_noise
        return RowPosteriors(chunk.at, Z, S, log_norm, distance, chunk.row_cells, V)

    def _sums(self, chunk: Chunk, scratch: Scratch | None) -> Array:
        """(K + q + 2, u) sums of the coefficients over the observed values of each row."""
        shape = self.on_incomplete.shape[1], chunk.M.shape[0]
        out = None if scratch is None else scratch.array("sums", shape)
        sums = product(self.on_incomplete, chunk.M, out)
        if self.on_complete.any():
            sums += self.on_complete[:, None]
        return sums

    def _precisions(self, chunk: Chunk) -> tuple[Array, Array]:
        """V (c, d), and the sums of ln 2 pi v over the observed values of each row (c,)."""
        v = chunk.M * self.model.psi
        v += chunk.known
        # Logarithms are expensive: variances are multiplied first. v is 1 where missing.
        width = v.shape[1] // self.together
        slab = v[:, :width].copy()
        for k in range(1, self.together):
            slab *= v[:, k * width : (k + 1) * width]
        rest = v[:, self.together * width :]
        log_noise = np.log(slab).sum(axis=1) + np.log(rest).sum(axis=1)
        log_noise += chunk.row_cells * log(2 * pi)
        return np.divide(chunk.M, v, out=v), log_noise


def solve(sums: Array, projected: Array, passes: int) -> tuple[Array, Array, Array]:
    """Z (q, c), ln|P| (u,) and r^T C_oo^-1 r less sum_o r_j^2 / psi_j (c,).

    `sums` (K + q + 1 or more, u) holds the sums over o of w~ w~^T / psi, packed, and gets S in
    place of the first K; `projected` (q + 1, c) those of w~ r / psi. u = c, or 1 where shared.
    """
    q = len(projected) - 1
    K = packed_size(q)
    S = sums[:K]
    S[packed_diagonal(q)] += 1.0
    b = projected[:q] - sums[K : K + q]
    if S.shape[1] == b.shape[1]:
        Z, log_det = factorise(S, b, passes=passes)
    else:
        _, log_det = factorise(S, np.zeros((q, 1)), passes=passes)
        Z = unpack(S[:, 0], q) @ b
    return Z, log_det, sums[K + q] - 2.0 * projected[q] - np.einsum("qc,qc->c", b, Z)


def product(coefficients: Array, rows: Any, out: Array | None = None) -> Array:
    """coefficients^T rows^T, (d, k) and (c, d) -> (k, c), C-contiguous float64.

    Dense ones are written to `out`, if given.
    """
    if isinstance(rows, np.ndarray):
        return np.matmul(coefficients.T, rows.T.astype(np.float64, copy=False), out=out)
    return np.ascontiguousarray((rows @ coefficients).T)


def _row_squares(chunk: Chunk, psi: Array) -> Array:
    """(c,) sum_j R_ij^2 / psi_j."""
    if np.all(psi == psi[0]):
        return np.asarray(chunk.row_squares / psi[0])
    if isinstance(chunk.R, np.ndarray):
        return np.asarray(np.einsum("ij,ij,j->i", chunk.R, chunk.R, 1.0 / psi, dtype=np.float64))
    return np.asarray(chunk.R.power(2) @ (1.0 / psi))


def from_residuals(
    values: Array, inverse_noise: Array, W: Array, S: Array, Z: Array
) -> tuple[Array, Array]:
    """Refined means (q, c), and (c,) sum_o (r - w^T z)^2 / psi, plus |z|^2.

    `values` (c, d) are r; `inverse_noise` (c or 1, d) is 1 / psi where observed, else 0.
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
    terms = (values - Z.T @ W.T) ** 2 * inverse_noise
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
    return np.asarray(twice_off_diagonal(pack_outer(W)) @ S)
