"""An image with gaps from the opinions of its patches.

Every patch is conditioned on what it saw under each component of the mixture, and what it expects
is laid on the image, overlaps averaged by their precisions. Entries that were not observed but
predicted by a coarser image come with a doubt, their standard deviation s. It reaches the others
through the same gains G as the entries themselves: coarse images err on whole areas at once, so
that the errors of one patch's doubtful entries are taken to go together, and add (G s)^2 to the
variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.images.arguments import Settings
from eigengap.images.gaussians import (
    Gaussian,
    IncompletePatches,
    conditional,
    energies,
    responsibilities,
)
from eigengap.images.patches import Canvas, Grid, counts, patches_at
from eigengap.linalg import Array
from eigengap.runtime.threads import in_order

TILE = 4096  # patches that are asked at a time
COUNTS = 0.05  # responsibility that counts for nothing
LEAST = 1e-9  # variance, or one patch would outweigh all


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of an image before its patches are asked."""

    values: Array  # (h, w, c) NaN where nothing is
    doubt: Array  # (h, w, c) standard deviation if predicted by a coarser image, else 0
    sigma: float  # of the noise on what was seen

    def without(self, hidden: NDArray[np.bool_]) -> Known:
        """The same with more entries hidden."""
        return Known(np.where(hidden, np.nan, self.values), self.doubt, self.sigma)

    def within(self, window: tuple[slice, slice]) -> Known:
        return Known(self.values[window], self.doubt[window], self.sigma)


@dataclass(frozen=True, eq=False)
class Painted:
    """What the patches say of every entry that any of them has something to say of."""

    mean: Array  # (h, w, c)
    sd: Array  # (h, w, c)
    tiles: int  # pieces in which they were asked


def painted(known: Known, gaussians: list[Gaussian], how: Settings) -> Painted:
    """Ask all patches."""
    h, w, c = known.values.shape
    y, x = Grid(h, w, how.patch, how.stride).corners()
    if known.sigma == 0.0:  # patches without gaps have nothing to say
        missing = counts(np.isnan(known.values), how.patch)[y, x] > 0
        y, x = y[missing], x[missing]
    canvas = Canvas((h, w, c), how.patch)
    tiles = [slice(start, start + TILE) for start in range(0, len(y), TILE)]

    def opinions(tile: slice) -> tuple[Array, Array]:
        at = y[tile], x[tile], how.patch
        patches = IncompletePatches.of(patches_at(known.values, *at))
        return _opinions(patches, patches_at(known.doubt, *at), gaussians, known.sigma**2)

    for tile, (mean, variance) in zip(tiles, in_order(opinions, iter(tiles)), strict=True):
        canvas.add(mean, 1.0 / variance, y[tile], x[tile])
    with np.errstate(invalid="ignore", divide="ignore"):  # where no patch has a gap
        return Painted(canvas.mean(), np.sqrt(canvas.variance()), len(tiles))


def _opinions(
    patches: IncompletePatches, doubt: Array, gaussians: list[Gaussian], sigma2: float
) -> tuple[Array, Array]:
    """Mean and variance over the components, by the law of total variance: (n, d), (n, d)."""
    resp = responsibilities(energies(patches, gaussians, sigma2))
    resp[(resp < COUNTS) & (resp < resp.max(axis=1, keepdims=True))] = 0.0
    resp /= resp.sum(axis=1, keepdims=True)
    mean, second = np.zeros(patches.values.shape), np.zeros(patches.values.shape)
    for k, one in enumerate(gaussians):
        at = np.flatnonzero(resp[:, k])
        if len(at) == 0:
            continue
        found = conditional(patches.take(at), one, sigma2)
        r = resp[at, k][:, None]
        mean[at] += r * found.mean
        second[at] += r * (found.variance + found.mean**2)
    variance = np.maximum(second - mean**2, LEAST)
    doubtful = np.flatnonzero(doubt.any(axis=1))
    if len(doubtful):
        observed = patches.observed[doubtful]
        shift = _carried(doubt[doubtful], observed, resp[doubtful], gaussians, sigma2)
        variance[doubtful] += shift**2
    return mean, variance


def _carried(
    doubt: Array, observed: NDArray[np.bool_], resp: Array, gaussians: list[Gaussian], sigma2: float
) -> Array:
    """G s: how far the mean would move if every doubtful entry moved by its doubt: (n, d)."""
    shift = np.zeros(doubt.shape)
    for k, one in enumerate(gaussians):
        at = np.flatnonzero(resp[:, k])
        if len(at):
            moved = IncompletePatches(one.mu + doubt[at], observed[at])
            shift[at] += resp[at, k][:, None] * (conditional(moved, one, sigma2).mean - one.mu)
    return shift
