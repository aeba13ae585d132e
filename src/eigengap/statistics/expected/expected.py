"""Expected statistics of a linear-Gaussian model: all that an M-step needs of the data.

With z~ = (z, 1) and W~ = (W, mu), the expected complete-data log-likelihood of feature j is a
weighted least-squares problem over the rows in which it was seen (T&B 1999, Appendix B; with gaps,
Ilin and Raiko 2010, section 4.3), so it needs only

    A_j = sum_i w_i m_ij E[z~_i z~_i^T],  B_j = sum_i w_i m_ij r_ij E[z~_i],  sum_i w_i m_ij r_ij^2

and the M-step of all features is d small linear systems. r is x measured from a fixed shift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array, packed_size, unpack
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.models.gaussian.row_posterior import Coefficients, RowPosteriors, row_posteriors
from eigengap.runtime.scratch import Scratch

_scratch = Scratch()


@dataclass(frozen=True, eq=False)
class Expected:
    """Sums over rows; they merge by addition. K~ = (q + 1)(q + 2) / 2, packed triangles of z~ z~^T.

    The triangle's last row belongs to the constant 1, so A = [zz packed | z | 1].
    """

    A: Array  # (K~, d)
    B: Array  # (q + 1, d)
    squares: Array  # (d,)
    latent: Array  # (K~,) sum_i w_i E[z~ z~^T], over all rows
    log_likelihood: float
    cells: float  # weighted number of seen cells

    @classmethod
    def of(cls, rows: ObservedRows, coefficients: Coefficients, passes: int = 1) -> Expected:
        """Statistics of one block under the current parameters: an E-step."""
        sums = Sums(rows, coefficients.q)
        for part in row_posteriors(rows, coefficients, passes, _scratch):
            w = None if rows.weight is None else rows.weight[part.rows]
            sums.add(part, w)
        return sums.expected(rows.squares, rows.cells)

    def merge(self, other: Expected) -> Expected:
        return Expected(
            A=self.A + other.A,
            B=self.B + other.B,
            squares=self.squares + other.squares,
            latent=self.latent + other.latent,
            log_likelihood=self.log_likelihood + other.log_likelihood,
            cells=self.cells + other.cells,
        )

    @property
    def q(self) -> int:
        return len(self.B) - 1

    @property
    def sum_w(self) -> float:
        return float(self.latent[-1])

    def observed(self) -> Array:
        """(d,) weighted number of rows in which each feature was seen."""
        return np.asarray(self.A[-1])

    def latent_moments(self) -> tuple[Array, Array]:
        """Mean (q,) and covariance (q, q) of z over the rows, posterior spread included."""
        full = unpack(self.latent, self.q + 1) / self.sum_w
        mean = full[-1, :-1]
        return mean, full[:-1, :-1] - np.outer(mean, mean)


class Sums:
    """The sums of one block while its chunks are gone through."""

    def __init__(self, rows: ObservedRows, q: int) -> None:
        self._rows = rows
        size = packed_size(q + 1)
        self._A = np.zeros((size, len(rows.incomplete)))
        self._B = np.zeros((q + 1, rows.d))
        self._latent = np.zeros(size)
        self._energy = 0.0

    def add(self, part: RowPosteriors, w: Array | None, u: Array | None = None) -> None:
        """One chunk, its rows counted w (c,) times; uses up `part.work`.

        Where a row has precision u (c,), expected, given which z has covariance S / u (Student
        rows), the sums are of E[u z~ z~^T] and of E[u z~].
        """
        energy = part.energy
        self._energy += float(np.sum(energy) if w is None else energy @ w)
        E = expected_products(part, w, u)  # (K~, number of mask rows)
        self._latent += E @ np.ones(E.shape[1])
        self._A += _times(E, self._rows.M[part.mask_rows])
        wu = w if u is None else u if w is None else w * u
        self._B += _times(augmented(part.Z, wu), self._rows.R[part.rows])

    def expected(self, squares: Array, cells: float) -> Expected:
        """With the weighted column sums of R^2 (d,) and number of seen cells."""
        rows = self._rows
        A = np.empty((len(self._latent), rows.d))
        A[:, rows.incomplete] = self._A
        A[:, rows.everywhere()] = self._latent[:, None]  # seen in every row: the sum over all
        return Expected(
            A=A,
            B=self._B,
            squares=squares,
            latent=self._latent,
            log_likelihood=-0.5 * self._energy,
            cells=cells,
        )


def expected_products(part: RowPosteriors, w: Array | None, u: Array | None = None) -> Array:
    """Weighted E[z~ z~^T], packed: (K~, c), or summed over the rows of a shared pattern (K~, 1).

    With u (c,) E[u z~ z~^T] = [S + u z z^T | u z | u]: the covariance S / u times u is S again.
    Made in place of the covariances.
    """
    q, c = part.Z.shape
    K = len(part.S)
    E = part.work
    uZ = part.Z if u is None else part.Z * u
    if E.shape[1] == c:
        products = _scratch.array("products", (q, c))
        for i in range(q):
            row = i * (i + 1) // 2
            E[row : row + i + 1] += np.multiply(uZ[i], part.Z[: i + 1], out=products[: i + 1])
        E[K : K + q] = uZ
        E[K + q] = 1.0 if u is None else u
        if w is not None:
            E *= w
        return E
    weighted = uZ if w is None else uZ * w
    count = float(c) if w is None else float(np.sum(w))
    outer = weighted @ part.Z.T
    E[:K] = count * part.S + outer[np.tril_indices(q)][:, None]
    E[K : K + q, 0] = weighted.sum(axis=1)
    E[K + q] = count if u is None else np.sum(u if w is None else u * w)
    return E


def augmented(Z: Array, w: Array | None) -> Array:
    """(z, 1) of every row, times its weight: (q + 1, c)."""
    z = np.vstack([Z, np.ones((1, Z.shape[1]))])
    return z if w is None else z * w


def _times(left: Array, rows: object) -> Array:
    """left @ rows with rows dense of any float type, or sparse."""
    if isinstance(rows, np.ndarray):
        return left @ rows.astype(np.float64, copy=False)
    return np.ascontiguousarray((rows.T @ left.T).T)  # type: ignore[attr-defined]
