"""EM where values come with measurement errors, standard deviations of their own.

With v_ij = psi_j + s_ij^2, V = 1 / v and T_ij = E[(r_ij - w_j^T z_i - delta_j)^2] under the current
posterior, the expected complete-data log-likelihood is

    Q = -1/2 sum_ij w_i m_ij (ln v_ij + V_ij T_ij).

Given psi it is a weighted regression for each feature (`gaussian.regress` with V in the sums).
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
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array, pack_outer, packed_size, twice_off_diagonal
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.models.gaussian.posterior import BlockCoefficients, times_packed
from eigengap.sources.base import Block
from eigengap.sources.wording import column
from eigengap.statistics.additive import Additive
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    Sums,
    expand,
    regress,
    scratch,
)

# Relative to the smallest known variance of a column, a noise variance that is as good as none.
NEGLIGIBLE = 1e-6

SMALLEST = 1e-145  # deviation whose square, and the inverse of that, stay within float64


@dataclass(frozen=True, eq=False)
class NoisyExpected(Additive):
    """Sums over rows; they merge by addition."""

    expected: Expected  # A and B with weights V; squares are not needed, and 0
    A2: Array  # (K~, d) as A, with weights V^2
    B2: Array  # (q + 1, d)
    squares2: Array  # (d,) of V^2 r^2
    precision: Array  # (d,) of V
    observed: Array  # (d,) weighted number of rows in which each feature was observed
    least: Array  # (d,) smallest known variance, c

    @classmethod
    def of(
        cls, rows: ObservedRows, current: Parameters, learns_noise: bool, passes: int = 1
    ) -> NoisyExpected:
        """Statistics of one block under the current parameters: an E-step."""
        q, d = current.W.shape[1], rows.d
        sums = Sums(rows, q)
        A2, B2 = np.zeros((packed_size(q + 1), d)), np.zeros((q + 1, d))
        squares2, precision = np.zeros(d), np.zeros(d)
        block = BlockCoefficients.of(rows, current)
        for chunk in rows.chunks(q):
            part = block.posteriors(chunk, passes, scratch)
            V = part.V
            assert V is not None  # the rows have measurement errors
            E, z = sums.add(chunk, part, chunk.weight)
            if learns_noise:
                ones = np.ones(len(V)) if chunk.weight is None else chunk.weight
                V2 = V * V
                V2R = V2 * chunk.R
                precision += ones @ V
                squares2 += ones @ (V2R * chunk.R)
                B2 += z @ V2R
                A2 += E @ V2
        expected = sums.expected(np.zeros(d), rows.cells)
        assert isinstance(rows.least_known, np.ndarray)
        return cls(expected, A2, B2, squares2, precision, rows.observed, rows.least_known)

    def merge(self, other: Self, /) -> Self:
        return replace(super().merge(other), least=np.minimum(self.least, other.least))


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
    products = twice_off_diagonal(pack_outer(both))
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


@dataclass(frozen=True, eq=False)
class KnownVariances:
    """Over the observed values of each column; they merge."""

    least: Array  # (d,) smallest known variance; 0 where one is not known, inf if none is observed
    sum: Array  # (d,) of the known variances' inverse square roots, unknown ones left out
    count: Array  # (d,) of known variances
    unknown: Array  # (d,) observed values without one
    first_unknown: NDArray[np.intp]  # (d,) row of the first observed value without one; -1 if none

    @classmethod
    def of(cls, block: Block) -> KnownVariances:
        observed, shape = block.observed, block.values.shape
        deviations = np.zeros(shape) if block.cell_sd is None else block.cell_sd
        known = observed & (deviations > SMALLEST)
        unknown = observed & ~known
        precision = np.divide(1.0, deviations, out=np.zeros(shape), where=known)
        first = np.where(unknown.any(axis=0), block.start + np.argmax(unknown, axis=0), -1)
        return cls(
            least=np.min(deviations, axis=0, where=observed, initial=np.inf) ** 2,
            sum=precision.sum(axis=0),
            count=known.sum(axis=0).astype(np.float64),
            unknown=unknown.sum(axis=0).astype(np.float64),
            first_unknown=first,
        )

    def merge(self, other: KnownVariances) -> KnownVariances:
        first = np.where(self.first_unknown >= 0, self.first_unknown, other.first_unknown)
        return KnownVariances(
            least=np.minimum(self.least, other.least),
            sum=self.sum + other.sum,
            count=self.count + other.count,
            unknown=self.unknown + other.unknown,
            first_unknown=first,
        )

    def rescaled(self, unit: Array) -> KnownVariances:
        """Of x / unit."""
        return replace(self, least=self.least / unit**2, sum=self.sum * unit)

    def typical(self, psi: Array) -> Array:
        """(d,) known variance k of a typical cell next to a noise variance psi; 0 where none is.

        1 / (psi + k) is the mean precision of the column: of cells without a known variance
        1 / psi, of the others that at the harmonic mean of their deviations. Few cells of a huge
        measurement error leave the column to the others.
        """
        mean = self.sum / np.maximum(self.count, 1.0)
        known = np.where(self.count > 0, 1.0 / np.where(mean > 0, mean, 1.0) ** 2, 0.0)
        without = self.unknown / np.maximum(self.count + self.unknown, 1.0)
        both = without * (psi + known) + (1.0 - without) * psi
        mixed = psi * ((1.0 - without) * known / np.where(both > 0, both, 1.0))
        return np.where(without > 0, mixed, known)

    def floor(self, alone: Array, noise: str) -> Array:
        """(d,) least noise variance that is safe next to the known ones; `alone` where none is."""
        least = self.least
        if noise == "isotropic":
            least = np.full(len(least), float(np.min(least)))
        return np.asarray(np.maximum(alone - least, np.minimum(NEGLIGIBLE * least, alone / 2)))

    def require_everywhere(self, names: tuple[str, ...] | None) -> None:
        """Refuse cells without a known variance where there is no other noise."""
        without = np.flatnonzero(self.first_unknown >= 0)
        if len(without):
            j = int(without[0])
            raise ValueError(
                f"noise_variance=0 leaves cell_sd as the only noise, but row "
                f"{int(self.first_unknown[j])}, column {column(names, j)} has none (0, NaN, or "
                "so small that its square underflows). Give it one, let noise_variance be learned "
                "(None), or set the cell to NaN"
            )
