"""Loadings of two fits in the same latent axes, so that they can be compared entry by entry.

W and W R describe the same density for every orthogonal R (factor analysis and PPCA alike), so
loadings of two fits differ by an arbitrary R unless something fixes it:

- "rotation": Procrustes rotates one onto the other. What is left is how far the fitted subspace and
  its scale moved. It is stable however close two eigenvalues are.
- "axes": each fit keeps the axes that it defines itself (principal axes, the canonical form of
  factor analysis, the varimax solution, ...) and only order and signs are matched. The rotation of
  the axes among themselves is then part of the difference; where two eigenvalues are close it has
  no limit.

Nearness is measured in a unit for each feature, so that it does not depend on how columns of
different kinds are scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import scipy.optimize

from eigengap.linalg import Array, procrustes

Align = Literal["rotation", "axes"]
ALIGNMENTS: tuple[Align, ...] = ("rotation", "axes")

Aligned = Callable[[Array, Array], Array]  # (W, the same rotated by its own fit) -> aligned (d, q)


def onto(W: Array, loadings: Array, unit: Array, align: Align) -> Aligned:
    """How the loadings of another fit are aligned with those of this one.

    Parameters
    ----------
    W : (d, q) unrotated loadings of the reference
    loadings : (d, q) the same after the rotation of factor analysis, W T^-T; W where there is none
    unit : (d,) of each feature
    """
    per = 1.0 / unit[:, None]
    if align == "axes":
        return lambda _, other: match_axes(other * per, loadings * per) / per
    rotation = np.linalg.lstsq(W, loadings, rcond=None)[0]  # (q, q), the reference's rotation
    return lambda other, _: other @ procrustes(other * per, W * per) @ rotation


def match_axes(A: Array, B: Array) -> Array:
    """A with its columns ordered and signed to be nearest to those of B, (d, q)."""
    products = A.T @ B
    _, order = scipy.optimize.linear_sum_assignment(-np.abs(products).T)
    signs = np.where(products[order, np.arange(B.shape[1])] < 0, -1.0, 1.0)
    return A[:, order] * signs
