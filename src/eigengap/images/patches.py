"""An image as overlapping patches, and patches put together again as an image.

Row i of the table of patches is the p x p x c square whose upper left corner is corner i, corners
in reading order, entries in the order of the image. Where patches overlap their opinions are
averaged by their precisions: the estimate of least variance if they erred independently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from eigengap.linalg import Array

Ints = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Grid:
    """Where patches lie: every `stride` pixels, and at the far edges so that all is covered."""

    height: int
    width: int
    patch: int
    stride: int

    @property
    def rows(self) -> Ints:
        return _corners(self.height, self.patch, self.stride)

    @property
    def columns(self) -> Ints:
        return _corners(self.width, self.patch, self.stride)

    def __len__(self) -> int:
        return len(self.rows) * len(self.columns)

    def corners(self) -> tuple[Ints, Ints]:
        """Row and column of the corner of every patch: (n,), (n,)."""
        y, x = np.meshgrid(self.rows, self.columns, indexing="ij")
        return y.ravel(), x.ravel()


def _corners(length: int, patch: int, stride: int) -> Ints:
    last = length - patch
    return np.unique(np.append(np.arange(0, last + 1, stride), last))


def patches_at(image: NDArray[Any], y: Ints, x: Ints, patch: int) -> NDArray[Any]:
    """The patches with corners (y, x) of an image (h, w, c): (n, patch * patch * c)."""
    windows = sliding_window_view(image, (patch, patch), axis=(0, 1))  # (h', w', c, p, p)
    return np.ascontiguousarray(windows[y, x].transpose(0, 2, 3, 1)).reshape(len(y), -1)


def counts(flags: NDArray[np.bool_], patch: int) -> NDArray[np.int64]:
    """How many of (h, w, c) are True in the patch at each corner: (h - p + 1, w - p + 1)."""
    table = np.zeros((flags.shape[0] + 1, flags.shape[1] + 1), dtype=np.int64)
    table[1:, 1:] = flags.sum(axis=2).cumsum(axis=0).cumsum(axis=1)
    p = patch
    return table[p:, p:] - table[:-p, p:] - table[p:, :-p] + table[:-p, :-p]


class Canvas:
    """An image in the making: sums of weighted patches, and of their weights."""

    def __init__(self, shape: tuple[int, int, int], patch: int) -> None:
        self._patch = patch
        self._total = np.zeros(shape)
        self._weight = np.zeros(shape)
        self._count = np.zeros(shape)

    def add(self, values: NDArray[Any], precision: NDArray[Any], y: Ints, x: Ints) -> None:
        """Lay patches (n, d) with their precisions (n, d) at the corners (y, x)."""
        p, c = self._patch, self._total.shape[2]
        values = values.reshape(len(y), p, p, c)
        weight = precision.reshape(len(y), p, p, c)
        for i, j in _offsets(p):
            at = (y + i, x + j)  # every corner once: no two patches of one offset meet
            self._total[at] += values[:, i, j] * weight[:, i, j]
            self._weight[at] += weight[:, i, j]
            self._count[at] += 1.0

    def mean(self) -> Array:
        """(h, w, c) average by precision."""
        return np.asarray(self._total / self._weight)

    def variance(self) -> Array:
        """(h, w, c) harmonic mean of the variances that met: as if all of them erred alike."""
        return np.asarray(self._count / self._weight)


def _offsets(patch: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(patch) for j in range(patch))
