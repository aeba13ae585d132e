"""An out-of-sample map as a value: coordinates of a row from its kernel with some landmarks.

    z(x) = B' (k(x) - m),   k(x) = [k(x, l_1), ..., k(x, l_m)]

Kernel PCA, its Nystroem approximation and, with kernels of their own, landmark
Isomap and Laplacian eigenmaps are of this form. Centring in feature space is in it: the columns of
B that belong to directions phi - mean(phi) sum to 0, and m holds the mean of k over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.exceptions import KernelOverflowError
from eigengap.linalg import Array
from eigengap.models.kernels.functions import Kernel, Rows
from eigengap.runtime.threads import in_threads, one_blas_thread, workers_for

PIECE_BYTES = 1 << 24  # of kernel values that are held at a time, in each thread


@dataclass(frozen=True, eq=False)
class LandmarkMap:
    """x -> B' (k(x, landmarks) - means).

    Attributes
    ----------
    landmarks : (m, d) rows, or (m, m) kernel values where the kernel is precomputed
    kernel : function of a row and a landmark
    means : (m,) subtracted from k(x): its mean over the rows of the fit, 0 without centring
    coefficients : (m, q) B
    centre : (m,) weights of the landmarks whose sum is the mean in feature space, 0 without
        centring; None where there is no way back
    directions : (m, q) weights of the landmarks that one unit of each coordinate adds to it
    """

    landmarks: Rows
    kernel: Kernel
    means: Array
    coefficients: Array
    centre: Array | None = None
    directions: Array | None = None

    @property
    def m(self) -> int:
        return int(self.coefficients.shape[0])

    @property
    def q(self) -> int:
        return int(self.coefficients.shape[1])

    def forward(self, X: Rows, n_jobs: int | None = None) -> Array:
        """Coordinates (n, q) of the rows X (n, d), in pieces of bounded memory."""
        pieces = row_pieces(X.shape[0], self.m)
        if len(pieces) == 1:
            return self._of_piece(X)
        workers = workers_for(n_jobs)
        with one_blas_thread():
            parts = in_threads(lambda rows: self._of_piece(X[rows]), pieces, workers)
        return np.concatenate(parts)

    def weights(self, Z: Array) -> Array:
        """Weights (n, m) of the landmarks whose sum in feature space lies at the coordinates Z."""
        if self.centre is None or self.directions is None:
            raise ValueError("this map has no way back into feature space")
        return np.asarray(self.centre + Z @ self.directions.T)

    def _of_piece(self, X: Rows) -> Array:
        K = self.kernel.matrix(X, self.landmarks)
        with np.errstate(over="ignore", invalid="ignore"):
            K -= self.means
            Z = np.asarray(K @ self.coefficients)
        if not np.all(np.isfinite(Z)):
            raise KernelOverflowError
        return Z


def row_pieces(n: int, m: int) -> list[slice]:
    """Consecutive rows whose kernel values with m landmarks are of bounded size."""
    step = max(1, PIECE_BYTES // (8 * max(m, 1)))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
