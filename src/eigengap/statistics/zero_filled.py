"""Second moments with missing values at zero: where an EM fit starts.

With cells missing at random, a product r_j r_k of centred cells is observed with probability p_j
p_k (p_j on the diagonal), so the zero-filled scatter over that probability estimates the covariance
(Lounici 2014). Its leading eigenvectors are close enough for EM to finish in tens of steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array
from eigengap.models.gaussian.observed_rows import ObservedRows


@dataclass(frozen=True, eq=False)
class ZeroFilledProduct:
    """(sum_i w_i r_i r_i^T) V for V (d, k): no d x d matrix unless V is the identity."""

    value: Array  # (d, k)

    @classmethod
    def of(cls, rows: ObservedRows, V: Array) -> ZeroFilledProduct:
        projected = rows.R @ V  # (c, k)
        if rows.weight is not None:
            projected = projected * rows.weight[:, None]
        return cls(np.asarray(rows.R.T @ projected))

    @classmethod
    def scatter(cls, rows: ObservedRows) -> ZeroFilledProduct:
        R = rows.R
        left = R if rows.weight is None else R * rows.weight[:, None]
        product = left.T @ R
        return cls(np.asarray(product if isinstance(product, np.ndarray) else product.toarray()))

    def merge(self, other: ZeroFilledProduct) -> ZeroFilledProduct:
        return ZeroFilledProduct(self.value + other.value)
