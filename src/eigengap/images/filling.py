"""Gaps of a picture filled by what the patches around them say, from coarse to fine.

Patches with gaps are conditioned on what they saw, and their overlapping opinions averaged by their
precisions. Where a hole is so wide that no patch sees more than a few entries beside it the picture
at half its size is filled first, and that answer, doubled, is taken as seen: the middle of a hole
is told by the coarsest picture that can see across it. How far off the filled entries are is told
by a few seen ones that are hidden, in some windows, from learning and for a trial.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from eigengap.images.arguments import Settings
from eigengap.images.gaussians import (
    GappyPatches,
    Gaussian,
    conditional,
    energies,
    responsibilities,
)
from eigengap.images.learning import Recipe, fit_gaussians
from eigengap.images.mixture import sample_rows
from eigengap.images.patches import Canvas, Grid, patches_at
from eigengap.images.pyramid import doubled, halved, pull_push
from eigengap.linalg import Array
from eigengap.side_by_side import in_order

Bools = NDArray[np.bool_]
Window = tuple[slice, slice]

LEARNED_FROM = 15_000  # patches at most
STEPS = 8  # of EM
TILE = 4096  # patches that are restored at a time
SEES_LITTLE = 0.04  # share of a patch's entries below which it cannot tell the others
COUNTS = 0.05  # responsibility that counts for nothing when patches are restored
SIDE, WINDOWS = 64, 6  # pixels, and number, of the windows in which seen entries are judges
JUDGES, LEAST_JUDGES = 0.1, 100  # share of the seen entries in them, and how many are enough
NORMAL_95 = 1.959964


@dataclass(frozen=True, eq=False)
class Filled:
    """A picture without gaps."""

    values: Array  # (h, w, c)
    sd: Array  # (h, w, c)
    gaussians: list[Gaussian]
    scale: float  # of the standard deviations
    tiles: int


def fill(picture: Array, how: Settings, sigma: float) -> Filled:
    """Fill the NaN of (h, w, c), whose seen entries have noise of standard deviation sigma.

    With sigma = 0 seen entries stay as they are.
    """
    h, w, _ = picture.shape
    beyond = out_of_reach(picture, how.patch)
    deep_sd = None
    known = picture
    if beyond.any():
        filled, sd = _coarser(picture, how, sigma)
        known = np.where(beyond, doubled(filled, h, w), picture)
        deep_sd = doubled(sd, h, w)
    windows, judges = _judges(known, how.rng)
    blind = np.where(judges, np.nan, known)
    gaussians = _learned(blind, how, sigma)
    scale = _scale(known, blind, windows, gaussians, how, sigma)
    result = _restored(known, gaussians, how, sigma, scale)
    if deep_sd is not None:
        result = replace(result, sd=np.where(beyond, np.maximum(deep_sd, result.sd), result.sd))
    return result


def _judges(picture: Array, rng: np.random.Generator) -> tuple[list[Window], Bools]:
    """Some windows, and (h, w, c) seen entries in them that are kept from learning.

    None where so few are seen that all are needed.
    """
    h, w, _ = picture.shape
    windows = [
        (_stretch(h, rng), _stretch(w, rng)) for _ in range(1 if max(h, w) <= SIDE else WINDOWS)
    ]
    judges = np.zeros(picture.shape, dtype=bool)
    for window in windows:
        judges[window] = rng.random(judges[window].shape) < JUDGES
    judges &= ~np.isnan(picture)
    if judges.sum() < LEAST_JUDGES:
        return [], np.zeros(picture.shape, dtype=bool)
    return windows, judges


def _stretch(length: int, rng: np.random.Generator) -> slice:
    start = int(rng.integers(max(length - SIDE, 0) + 1))
    return slice(start, min(start + SIDE, length))


def out_of_reach(picture: Array, patch: int) -> Bools:
    """(h, w, c) missing entries all of whose patches see too little."""
    seen = ~np.isnan(picture)
    h, w, c = picture.shape
    table = np.zeros((h + 1, w + 1))
    table[1:, 1:] = seen.sum(axis=2).cumsum(axis=0).cumsum(axis=1)
    p = patch
    inside = table[p:, p:] - table[:-p, p:] - table[p:, :-p] + table[:-p, :-p]  # (h', w')
    # The best of the patches that hold a pixel: their corners lie up to p - 1 above and left.
    best = np.pad(inside, p - 1, constant_values=-1.0)
    for axis in (0, 1):
        best = sliding_window_view(best, p, axis=axis).max(axis=-1)
    least = max(2.0, SEES_LITTLE * p * p * c)
    return np.asarray(~seen & (best < least)[..., None])


def _coarser(picture: Array, how: Settings, sigma: float) -> tuple[Array, Array]:
    """The picture at half its size, filled, with standard deviations."""
    small = halved(picture)
    h, w, _ = small.shape
    if min(h, w) < 4 or not np.isnan(small).any():
        spread = float(np.nanstd(picture))
        filled = pull_push(small)
        return filled, np.where(np.isnan(small), spread, sigma)
    side = min(how.patch, h, w)
    result = fill(small, replace(how, patch=side, stride=min(how.stride, side)), sigma)
    return result.values, result.sd


def _learned(picture: Array, how: Settings, sigma: float) -> list[Gaussian]:
    h, w, c = picture.shape
    y, x = Grid(h, w, how.patch, 1).corners()
    at = sample_rows(len(y), LEARNED_FROM, how.rng)
    patches = GappyPatches.of(patches_at(picture, y[at], x[at], how.patch))
    smooth = patches_at(pull_push(picture), y[at], x[at], how.patch)
    recipe = Recipe(how.n_mixture, how.rank, STEPS, sigma**2)
    return fit_gaussians(patches, smooth, c, recipe, how.rng)


def _restored(
    picture: Array, gaussians: list[Gaussian], how: Settings, sigma: float, scale: float
) -> Filled:
    canvas, tiles = _painted(picture, gaussians, how, sigma)
    kept = ~np.isnan(picture) if sigma == 0.0 else np.zeros(picture.shape, dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore"):  # where no patch has a gap
        mean, sd = canvas.mean(), np.sqrt(canvas.variance())
    return Filled(
        values=np.where(kept, picture, mean),
        sd=np.where(kept, 0.0, scale * sd),
        gaussians=gaussians,
        scale=scale,
        tiles=tiles,
    )


def _painted(
    picture: Array, gaussians: list[Gaussian], how: Settings, sigma: float
) -> tuple[Canvas, int]:
    """The opinions of all patches that have any, and in how many pieces they were asked for."""
    h, w, c = picture.shape
    y, x = Grid(h, w, how.patch, how.stride).corners()
    if sigma == 0.0:  # patches without gaps have nothing to say
        gaps = patches_at(np.isnan(picture), y, x, how.patch).any(axis=1)
        y, x = y[gaps], x[gaps]
    canvas = Canvas((h, w, c), how.patch)
    tiles = [slice(start, start + TILE) for start in range(0, len(y), TILE)]

    def opinions(tile: slice) -> tuple[Array, Array]:
        patches = GappyPatches.of(patches_at(picture, y[tile], x[tile], how.patch))
        return _opinions(patches, gaussians, sigma**2)

    for tile, (mean, variance) in zip(tiles, in_order(opinions, iter(tiles)), strict=True):
        canvas.add(mean, 1.0 / variance, y[tile], x[tile])
    return canvas, len(tiles)


def _opinions(
    patches: GappyPatches, gaussians: list[Gaussian], sigma2: float
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
        told = conditional(patches.take(at), one, sigma2)
        r = resp[at, k][:, None]
        mean[at] += r * told.mean
        second[at] += r * (told.variance + told.mean**2)
    return mean, np.maximum(second - mean**2, 1e-9)


def _scale(
    picture: Array,
    blind: Array,  # the same with the judges hidden
    windows: list[Window],
    gaussians: list[Gaussian],
    how: Settings,
    sigma: float,
) -> float:
    """What makes 95 % intervals of the judges hold 95 % of them."""
    z = [np.empty(0)]
    for window in windows:
        canvas, _ = _painted(blind[window], gaussians, how, sigma)
        with np.errstate(invalid="ignore", divide="ignore"):
            error, variance = picture[window] - canvas.mean(), canvas.variance() + sigma**2
            judged = np.isnan(blind[window]) & ~np.isnan(picture[window])
        z.append(np.abs(error[judged]) / np.sqrt(variance[judged]))
    all_z = np.concatenate(z)
    return float(np.quantile(all_z, 0.95) / NORMAL_95) if len(all_z) else 1.0
