"""How far two configurations of the same points are apart, once one is laid upon the other.

Shift, rotation and reflection, and scale are taken off by least squares (Gower 1975; Schoenemann
and Carroll 1970): with both centred, Z'T = U diag(s) V', the rotation is R = U V' and the scale
sum(s) / |Z|^2. What is left, as a share of the truth's own sum of squares,

    disparity = |T - c Z R|^2 / |T|^2 = 1 - (sum s)^2 / (|Z|^2 |T|^2),

is 0 where they agree and 1 where they have nothing in common. It is that of
`scipy.spatial.procrustes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from eigengap.comparison.pairwise import coordinates
from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class Alignment:
    """A configuration laid upon another: x = scale (z - center) rotation + shift.

    Attributes
    ----------
    aligned : array (n, max(q, p)), the coordinates in the units of the truth
    disparity : float in [0, 1], the share of the truth's sum of squares that is left
        (above 1 is possible where scaling=False)
    rotation : array (q, max(q, p))
    scale : float
    center : array (q,), mean of what was aligned
    shift : array (max(q, p),), mean of the truth
    """

    aligned: Array
    disparity: float
    rotation: Array
    scale: float
    center: Array
    shift: Array

    @property
    def correlation(self) -> float:
        """Procrustes correlation, sqrt(1 - disparity); NaN where that is not a number."""
        return sqrt(1.0 - self.disparity) if self.disparity <= 1.0 else float("nan")

    def apply(self, Z: Any) -> Array:
        """Further points (m, q) of the same configuration, in the units of the truth."""
        points = coordinates(Z, "Z")
        if points.shape[1] != len(self.center):
            raise ValueError(
                f"Z has {points.shape[1]} columns, but the configuration that was aligned has "
                f"{len(self.center)}"
            )
        return np.asarray(self.scale * (points - self.center) @ self.rotation + self.shift)

    def __repr__(self) -> str:
        return (
            f"Alignment of {len(self.aligned)} points: disparity {self.disparity:.4g}, "
            f"correlation {self.correlation:.4g}, scale {self.scale:.4g}"
        )


def align(Z: Any, truth: Any, *, scaling: bool = True, reflection: bool = True) -> Alignment:
    """Lay the embedding Z upon the true coordinates, point for point.

    Parameters
    ----------
    Z : table of shape (n, q)
    truth : table of shape (n, p)
        The configuration of fewer columns counts as having zeros in the others.
    scaling : bool, default=True
        Whether Z may be stretched.
    reflection : bool, default=True
        Whether Z may be mirrored.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import align
    >>> truth = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> turned = 3.0 * truth[:, ::-1] + 7.0
    >>> np.allclose(align(turned, truth).aligned, truth)
    True
    """
    A, B = coordinates(Z, "Z"), coordinates(truth, "truth")
    if len(A) != len(B):
        raise ValueError(f"Z has {len(A)} points but truth has {len(B)}; give the same points")
    center, shift = np.mean(A, axis=0), np.mean(B, axis=0)
    A, B = A - center, B - shift
    size_a, size_b = _size(A), _size(B)
    for size, which in ((size_a, "Z"), (size_b, "truth")):
        if not (np.isfinite(size) and size > 0.0):
            raise ValueError(f"all points of {which} coincide, so that nothing can be laid upon it")
    # Unit sizes, so that squares of large or small coordinates stay within range.
    R, overlap = _rotation(A / size_a, B / size_b, reflection)
    overlap = max(overlap, 0.0) if scaling else overlap  # a negative scale would mirror
    scale = overlap * size_b / size_a if scaling else 1.0
    if scaling:
        disparity = max(1.0 - overlap**2, 0.0)
    else:
        ratio = size_a / size_b
        disparity = max(1.0 + ratio**2 - 2.0 * ratio * overlap, 0.0)
    shift = np.concatenate([shift, np.zeros(R.shape[1] - len(shift))])
    return Alignment(scale * A @ R + shift, disparity, R, scale, center, shift)


def procrustes_distance(
    Z: Any, truth: Any, *, scaling: bool = True, reflection: bool = True
) -> float:
    """Share of the truth's sum of squares that the embedding misses at its best.

    Parameters
    ----------
    Z : table of shape (n, q)
    truth : table of shape (n, p)
    scaling, reflection : bool, default=True
        Whether Z may be stretched, and mirrored.

    Returns
    -------
    float
        0 for the same shape; with scaling at most 1. `align` gives the coordinates too.

    Examples
    --------
    >>> from eigengap import procrustes_distance
    >>> square = [[0, 0], [0, 1], [1, 1], [1, 0]]
    >>> procrustes_distance([[5 * y, 5 * x] for x, y in square], square) < 1e-12
    True
    """
    return align(Z, truth, scaling=scaling, reflection=reflection).disparity


def _size(A: Array) -> float:
    """|A|, whose squares may leave the range of floating point."""
    largest = float(np.max(np.abs(A), initial=0.0))
    return largest * float(np.linalg.norm(A / largest)) if largest > 0.0 else 0.0


def _rotation(A: Array, B: Array, reflection: bool) -> tuple[Array, float]:
    """The orthogonal map (q, max(q, p)) of A nearest to B, and tr(R'A'B)."""
    q, p = A.shape[1], B.shape[1]
    width = max(q, p)
    cross = np.zeros((width, width))  # zeros for the columns that one of them lacks
    cross[:q, :p] = A.T @ B
    U, s, Vt = np.linalg.svd(cross)
    if not reflection and np.linalg.det(U @ Vt) < 0.0:
        U[:, -1] *= -1.0
        s[-1] *= -1.0
    return (U @ Vt)[:q], float(np.sum(s))
