"""Missing entries of an image imputed by what the patches around them say, from coarse to fine.

Where a hole is so wide that no patch sees more than a few entries beside it the image at half its
size is imputed first, by the same method, and its answer, doubled, is what the patches of the hole
know, with a doubt: the middle of a hole is predicted from the coarsest image that reaches across
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from eigengap.images.arguments import Settings
from eigengap.images.gaussians import Gaussian, IncompletePatches, Recipe, fit_gaussians
from eigengap.images.painting import Known, painted, tried
from eigengap.images.patches import corners, counts, patches_at, sample_rows
from eigengap.linalg import Array

LEARNED_FROM = 15_000  # patches at most
STEPS = 8  # of EM
MOST = 2.0  # standard deviations of the image: its mean is hardly a worse guess than that
SEES_LITTLE = 0.04  # share of a patch's entries below which it does not determine the others


@dataclass(frozen=True, eq=False)
class Filled:
    """An image without missing entries."""

    values: Array  # (h, w, c)
    sd: Array  # (h, w, c)
    gaussians: list[Gaussian]
    scale: float  # of the standard deviations
    tiles: int


def fill(image: Array, how: Settings, sigma: float) -> Filled:
    """Impute the NaN of (h, w, c), whose observed entries have noise of standard deviation sigma.

    With sigma = 0 observed entries stay as they are.
    """
    known = _known(image, how, sigma)
    predicted = known.doubt > 0.0
    gaussians, scale, least = tried(
        known, lambda values: _learned(values, predicted, how, sigma), how
    )
    mean, sd, tiles = painted(known, gaussians, how)
    kept = predicted | ~np.isnan(image) if sigma == 0.0 else predicted
    return Filled(
        values=np.where(kept, known.values, mean),
        sd=np.where(kept, known.doubt, np.clip(scale * sd, least, MOST)),
        gaussians=gaussians,
        scale=scale,
        tiles=tiles,
    )


def _known(image: Array, how: Settings, sigma: float) -> Known:
    """What was observed and, where no patch sees enough, what the coarser image says."""
    beyond = out_of_reach(image, how.patch)
    if not beyond.any():
        return Known(image, np.zeros(image.shape), sigma)
    h, w, _ = image.shape
    small = halved(image)
    filled, sd = _coarser(small, how, sigma)
    # The coarse image knows the means of 2 x 2 pixels; how far pixels are from those is observed
    # beside the hole.
    detail2 = pull_push((image - doubled(pull_push(small), h, w)) ** 2)
    doubt = np.sqrt(doubled(sd, h, w) ** 2 + detail2)
    return Known(
        values=np.where(beyond, doubled(filled, h, w), image),
        doubt=np.where(beyond, np.maximum(doubt, np.finfo(float).tiny), 0.0),
        sigma=sigma,
    )


def out_of_reach(image: Array, patch: int) -> NDArray[np.bool_]:
    """(h, w, c) missing entries all of whose patches see too little."""
    observed = ~np.isnan(image)
    # The best of the patches that hold a pixel: their corners lie up to p - 1 above and left.
    best = np.pad(counts(observed, patch), patch - 1, constant_values=-1)
    for axis in (0, 1):
        best = sliding_window_view(best, patch, axis=axis).max(axis=-1)
    least = max(2.0, SEES_LITTLE * patch**2 * image.shape[2])
    return np.asarray(~observed & (best < least)[..., None])


def _coarser(small: Array, how: Settings, sigma: float) -> tuple[Array, Array]:
    """The image at half its size, imputed, with standard deviations."""
    h, w, _ = small.shape
    missing = np.isnan(small)
    if min(h, w) < 4 or not missing.any():
        return pull_push(small), np.where(missing, float(np.nanstd(small)), sigma)
    result = fill(small, how.shrunk_to(small.shape), sigma)
    return result.values, result.sd


def _learned(
    values: Array, predicted: NDArray[np.bool_], how: Settings, sigma: float
) -> list[Gaussian]:
    """From patches with observed entries; predictions from a coarser image are left out."""
    h, w, c = values.shape
    observed_only = np.where(predicted, np.nan, values)
    y, x = corners(h, w, how.patch, 1)
    witnesses = np.flatnonzero(counts(~np.isnan(observed_only), how.patch)[y, x])
    at = witnesses[sample_rows(len(witnesses), LEARNED_FROM, how.rng)]
    patches = IncompletePatches.of(patches_at(observed_only, y[at], x[at], how.patch))
    smooth = patches_at(pull_push(values), y[at], x[at], how.patch)
    recipe = Recipe(how.n_mixture, how.rank, STEPS, sigma**2)
    return fit_gaussians(patches, smooth, c, recipe, how.rng)


# At half the size, and twice ----------------------------------------------------------------------


def halved(image: Array) -> Array:
    """Means over 2 x 2 pixels of the observed entries of (h, w, c); NaN where there is none."""
    total, count = _blocks(np.nan_to_num(image)), _blocks((~np.isnan(image)).astype(float))
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.where(count > 0, count, np.nan))


def doubled(image: Array, height: int, width: int) -> Array:
    """(h, w, c) to (height, width, c), about twice as large, by linear interpolation."""
    return _stretched(_stretched(image, height, 0), width, 1)


def pull_push(image: Array) -> Array:
    """Missing entries of (h, w, c) from coarser images; 0 in channels without an observed entry.

    Pull-push (Gortler, Grzeszczuk, Szeliski and Cohen 1996, "The lumigraph"): means over 2 x 2
    pixels of what was observed, again and again until nothing is missing; then back up, each
    level's missing values imputed from the one below by linear interpolation. It reaches across any
    hole, and is as blurred as the hole is wide.
    """
    missing = np.isnan(image)
    if not missing.any():
        return image
    h, w, _ = image.shape
    if max(h, w) == 1:
        return np.where(missing, 0.0, image)
    return np.where(missing, doubled(pull_push(halved(image)), h, w), image)


def _blocks(image: Array) -> Array:
    h, w, c = image.shape
    even = np.pad(image, ((0, h % 2), (0, w % 2), (0, 0)))
    return np.asarray(even.reshape((h + 1) // 2, 2, (w + 1) // 2, 2, c).sum(axis=(1, 3)))


def _stretched(image: Array, length: int, axis: int) -> Array:
    at = np.clip((np.arange(length) + 0.5) / 2.0 - 0.5, 0.0, image.shape[axis] - 1.0)
    below = np.floor(at).astype(np.intp)
    above = np.minimum(below + 1, image.shape[axis] - 1)
    share = (at - below).reshape([-1 if k == axis else 1 for k in range(image.ndim)])
    lower, upper = np.take(image, below, axis), np.take(image, above, axis)
    return np.asarray(lower * (1.0 - share) + upper * share)
