"""Moments of the rows in the feature space that some landmarks span.

f(x) = T' k(x, landmarks), with T the inverse root of the landmarks' own kernel matrix, has
f(x)'f(y) equal to the Nystroem approximation of k(x, y) (Williams and Seeger 2001). Its mean and
scatter are all that kernel PCA on landmarks needs to know of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import Self

import numpy as np

from eigengap.linalg import Array
from eigengap.models.kernels.functions import Kernel, Rows
from eigengap.models.maps.landmark import row_pieces
from eigengap.runtime.threads import in_threads, one_blas_thread, workers_for
from eigengap.sources.base import Block, merge_tree
from eigengap.statistics.moments import Moments

GROUPS = 16  # of pieces of a block, whatever the number of threads: the sums are then the same


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """The features of a row."""

    kernel: Kernel
    landmarks: Rows  # (m, d)
    T: Array | None  # (m, r); None where it is I and the landmarks span the whole feature space


@dataclass(frozen=True, eq=False)
class LandmarkMoments:
    """What kernel PCA on landmarks must know of the rows."""

    features: Moments  # of f, (r,) and (r, r)
    kernel_mean: Array  # (m,) of k(x, landmarks)
    residual: float  # sum of w (k(x, x) - |f(x)|^2): what the landmarks do not span

    @classmethod
    def of(cls, block: Block, at: LandmarkFeatures, n_jobs: int | None = None) -> Self:
        """Of a block, in pieces of bounded memory, in threads."""
        pieces = row_pieces(block.n_rows, at.landmarks.shape[0])
        if len(pieces) == 1:
            return cls._of_piece(block.values, block.weight, at)

        step = -(-len(pieces) // GROUPS)
        groups = [pieces[i : i + step] for i in range(0, len(pieces), step)]
        workers = workers_for(n_jobs)
        with one_blas_thread():
            return merge_tree(in_threads(partial(cls._of_pieces, block, at), groups, workers))

    @classmethod
    def _of_pieces(cls, block: Block, at: LandmarkFeatures, pieces: list[slice]) -> Self:
        """Merged as they come: all moments of a long block would not be small together."""
        w = block.weight
        parts = (cls._of_piece(block.values[i], None if w is None else w[i], at) for i in pieces)
        return reduce(lambda a, b: a.merge(b), parts)

    @classmethod
    def _of_piece(cls, X: Rows, w: Array | None, at: LandmarkFeatures) -> Self:
        K = at.kernel.matrix(X, at.landmarks)
        F = K if at.T is None else K @ at.T
        moments = Moments.of(Block(F, w, None, 0))
        if at.T is None:
            return cls(moments, moments.mean, 0.0)
        weight = np.ones(len(F)) if w is None else w
        missing = np.maximum(at.kernel.diagonal(X) - np.einsum("ij,ij->i", F, F), 0.0)
        mean = (weight @ K) / (float(np.sum(weight)) or 1.0)
        return cls(moments, mean, float(weight @ missing))

    def merge(self, other: Self, /) -> Self:
        """Moments of the rows of both."""
        features = self.features.merge(other.features)
        share = other.features.sum_w / features.sum_w if features.sum_w > 0.0 else 0.0
        mean = self.kernel_mean + share * (other.kernel_mean - self.kernel_mean)
        return type(self)(features, mean, self.residual + other.residual)
