"""An image as overlapping patches, and patches put together again as an image.

Row i of the table of patches is the p x p x c square whose upper left corner is corner i, corners
in reading order, entries in the order of the image. Where patches overlap their opinions are
averaged by their precisions: the estimate of least variance if they erred independently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.threads import in_order as in_threads
from eigengap.runtime.threads import one_blas_thread

Ints = NDArray[np.intp]

B = TypeVar("B")
T = TypeVar("T")

TILE = 4096  # patches that are restored at a time


def corners(height: int, width: int, patch: int, stride: int) -> tuple[Ints, Ints]:
    """Row and column of the corner of every patch: (n,), (n,).

    Every `stride` pixels, and at the far edges so that all is covered.
    """
    y, x = (
        np.unique([*range(0, length - patch, stride), length - patch]) for length in (height, width)
    )
    rows, columns = np.meshgrid(y, x, indexing="ij")
    return rows.ravel(), columns.ravel()


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
        for i, j in product(range(p), repeat=2):
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


def painted(
    shape: tuple[int, int, int],
    patch: int,
    at: tuple[Ints, Ints],  # corners
    opinions: Callable[[Ints, Ints], tuple[NDArray[Any], NDArray[Any]]],
) -> tuple[Array, Array, int]:
    """Image (h, w, c) of what patches predict, its standard deviations, and in how many pieces.

    `opinions` gives mean and variance (n, d) of every entry of the patches with corners (y, x).
    """
    y, x = at
    canvas = Canvas(shape, patch)
    tiles = [slice(start, start + TILE) for start in range(0, len(y), TILE)]
    found = in_order(lambda tile: opinions(y[tile], x[tile]), tiles)
    for tile, (mean, variance) in zip(tiles, found, strict=True):
        canvas.add(mean, 1.0 / variance, y[tile], x[tile])
    with np.errstate(invalid="ignore", divide="ignore"):  # where no patch has a prediction
        return canvas.mean(), np.sqrt(canvas.variance()), len(tiles)


def in_order(fn: Callable[[B], T], blocks: list[B]) -> Iterator[T]:
    """fn of every block, with one thread of BLAS each, so that sums do not depend on their number.

    A lone block, too: where several threads share a product its last digits are others.
    """
    if len(blocks) > 1:
        return in_threads(fn, iter(blocks))
    with one_blas_thread():
        return iter([fn(block) for block in blocks])


def sample_rows(n: int, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Up to `most` of n numbers, in order."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def tamed_coordinates(X: NDArray[Any], most: int) -> Array:
    """(n, most) leading coordinates of centred rows, in which the largest count for less."""
    lam, U = np.linalg.eigh((X.T @ X / len(X)).astype(np.float64))
    leading = slice(-1, -1 - most, -1)
    Z = X @ U[:, leading].astype(X.dtype)
    return np.asarray(Z / np.maximum(lam[leading], 1e-12) ** 0.25, dtype=np.float64)
