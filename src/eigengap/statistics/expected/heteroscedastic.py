"""Expected statistics and M-step where cells come with standard deviations of their own.

With v_ij = psi_j + s_ij^2, V = 1 / v and T_ij = E[(r_ij - w_j^T z_i - delta_j)^2] under the current
posterior, the expected complete-data log-likelihood is

    Q = -1/2 sum_ij w_i m_ij (ln v_ij + V_ij T_ij).

Given psi it is a weighted regression for each feature (`maximise.regress` with V in the sums).
Given W, psi has no closed form. Write v_ij = phi_j + (s_ij^2 - c_j) with c_j the smallest s_ij^2 of
the feature and phi = psi + c >= c. Two updates of phi raise Q from where it is, and need only the
sums of V and of V^2 T, which is quadratic in (w_j, delta_j):

    phi (1 + phi sum (V^2 T - V) / n)   e = e_phi + e_rest, split in expectation: an EM step
    phi sqrt(sum V^2 T / sum V)         minorisation (Zhou, Hu, Qiao and Lange 2019)

The first is the exact M-step where all s_ij of the feature are equal, and slow where they are much
larger than c; the second is never very slow. Both move the same way; the one that moves farther is
taken. phi instead of psi, for near psi = 0 neither would move it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eigengap.linalg import Array, pack_outer, packed_indices, packed_size
from eigengap.models.gaussian.heteroscedastic import NoisyRows, noisy_posteriors
from eigengap.models.gaussian.row_posterior import times_packed
from eigengap.statistics.expected.expected import Expected, augmented, expected_products
from eigengap.statistics.expected.maximise import Constraints, Parameters, expand, regress


@dataclass(frozen=True, eq=False)
class NoisyExpected:
    """Sums over rows; they merge by addition."""

    expected: Expected  # A and B with weights V; squares are not needed, and 0
    A2: Array  # (K~, d) as A, with weights V^2
    B2: Array  # (q + 1, d)
    squares2: Array  # (d,) of V^2 r^2
    precision: Array  # (d,) of V
    observed: Array  # (d,) weighted number of rows in which each feature was seen
    least: Array  # (d,) smallest known variance, c

    @classmethod
    def of(
        cls, rows: NoisyRows, current: Parameters, learns_noise: bool, passes: int = 1
    ) -> NoisyExpected:
        """Statistics of one block under the current parameters: an E-step."""
        q, d = current.W.shape[1], rows.d
        size = packed_size(q + 1)
        A, A2 = np.zeros((size, d)), np.zeros((size, d))
        B, B2 = np.zeros((q + 1, d)), np.zeros((q + 1, d))
        latent = np.zeros(size)
        squares2, precision = np.zeros(d), np.zeros(d)
        log_likelihood = 0.0
        for chunk in noisy_posteriors(rows, current.W, current.delta, current.psi, passes):
            part, V, VR = chunk.part, chunk.V, chunk.VR
            w = None if rows.weight is None else rows.weight[part.rows]
            ones = np.ones(len(V)) if w is None else w
            log_likelihood -= 0.5 * float(part.energy @ ones)
            E = expected_products(part, w)
            z = augmented(part.Z, w)
            latent += E @ np.ones(E.shape[1])
            A += E @ V
            B += z @ VR
            if learns_noise:
                precision += ones @ V
                squares2 += ones @ (VR * VR)
                B2 += z @ np.multiply(V, VR, out=VR)
                A2 += E @ np.multiply(V, V, out=V)
        expected = Expected(
            A=A,
            B=B,
            squares=np.zeros(d),
            latent=latent,
            log_likelihood=log_likelihood,
            cells=rows.cells,
        )
        return cls(expected, A2, B2, squares2, precision, rows.observed, rows.least)

    def merge(self, other: NoisyExpected) -> NoisyExpected:
        return NoisyExpected(
            expected=self.expected.merge(other.expected),
            A2=self.A2 + other.A2,
            B2=self.B2 + other.B2,
            squares2=self.squares2 + other.squares2,
            precision=self.precision + other.precision,
            observed=self.observed + other.observed,
            least=np.minimum(self.least, other.least),
        )


def maximise_known_noise(
    statistic: NoisyExpected, current: Parameters, how: Constraints
) -> Parameters:
    """W and delta given psi, then psi given them: neither lowers the likelihood."""
    weighted = replace(current, psi=np.ones(len(current.psi)))  # V already divides the sums
    W, delta, _ = regress(statistic.expected, weighted, how)
    psi = current.psi
    if how.fixed_noise is None:
        psi = _noise(statistic, current.psi, np.column_stack([W, delta]), how)
    if not how.has_prior:
        W, delta = expand(statistic.expected, W, delta, how)
    return Parameters(W=W, delta=delta, psi=psi)


def known_noise_gradient(
    statistic: NoisyExpected, current: Parameters, how: Constraints
) -> Parameters:
    """Derivatives of the observed-data log-likelihood by each parameter."""
    both = np.column_stack([current.W, current.delta])
    left = statistic.expected.B - times_packed(statistic.expected.A, both.T)
    by_W = left[:-1].T - how.loading_precision * current.W
    by_psi = 0.5 * (_squares2(statistic, both) - statistic.precision)
    return Parameters(W=by_W, delta=left[-1], psi=by_psi, nu=0.0)


def _squares2(statistic: NoisyExpected, both: Array) -> Array:
    """(d,) sums of V^2 T at (W, delta), both (d, q + 1)."""
    i, j = packed_indices(both.shape[1])
    products = pack_outer(both) * np.where(i == j, 1.0, 2.0)
    T2 = statistic.squares2 - 2.0 * np.einsum("dk,kd->d", both, statistic.B2)
    T2 += np.einsum("dk,kd->d", products, statistic.A2)
    return np.asarray(np.maximum(T2, 0.0))


def _noise(statistic: NoisyExpected, psi: Array, both: Array, how: Constraints) -> Array:
    """psi (d,) from the current one and the new (W, delta), both (d, q + 1)."""
    T2 = _squares2(statistic, both)
    V, n, c = statistic.precision, statistic.observed, statistic.least
    if how.noise == "isotropic":
        T2, V, n = (np.full(len(psi), float(np.sum(each))) for each in (T2, V, n))
        c = np.full(len(psi), float(np.min(c)))
    phi = psi + c
    split = phi * (1.0 + phi * (T2 - V) / n)
    shrunk = phi * np.sqrt(T2 / V)
    farther = np.where(T2 > V, np.maximum(split, shrunk), np.minimum(split, shrunk))
    return np.asarray(np.maximum(farther - c, how.floor))
