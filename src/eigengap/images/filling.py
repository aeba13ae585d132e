"""Gaps of an image filled by what the patches around them say, from coarse to fine.

Where a hole is so wide that no patch sees more than a few entries beside it the image at half its
size is filled first, by the same method, and its answer, doubled, is what the patches of the hole
know, with a doubt: the middle of a hole is predicted from the coarsest image that reaches across
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from eigengap.images.arguments import Settings
from eigengap.images.gaussians import Gaussian, IncompletePatches
from eigengap.images.learning import Recipe, fit_gaussians
from eigengap.images.mixture import sample_rows
from eigengap.images.painting import Known, painted
from eigengap.images.patches import Grid, counts, patches_at
from eigengap.images.pyramid import doubled, halved, pull_push
from eigengap.images.trials import tried
from eigengap.linalg import Array

LEARNED_FROM = 15_000  # patches at most
STEPS = 8  # of EM
MOST = 2.0  # standard deviations of the image: its mean is hardly a worse guess than that
SEES_LITTLE = 0.04  # share of a patch's entries below which it does not determine the others


@dataclass(frozen=True, eq=False)
class Filled:
    """An image without gaps."""

    values: Array  # (h, w, c)
    sd: Array  # (h, w, c)
    gaussians: list[Gaussian]
    scale: float  # of the standard deviations
    tiles: int


def fill(image: Array, how: Settings, sigma: float) -> Filled:
    """Fill the NaN of (h, w, c), whose seen entries have noise of standard deviation sigma.

    With sigma = 0 seen entries stay as they are.
    """
    known = _known(image, how, sigma)
    predicted = known.doubt > 0.0
    verdict = tried(known, lambda values: _learned(values, predicted, how, sigma), how)
    result = painted(known, verdict.gaussians, how)
    kept = predicted | ~np.isnan(image) if sigma == 0.0 else predicted
    spread = np.clip(verdict.scale * result.sd, verdict.least, MOST)
    return Filled(
        values=np.where(kept, known.values, result.mean),
        sd=np.where(kept, known.doubt, spread),
        gaussians=verdict.gaussians,
        scale=verdict.scale,
        tiles=result.tiles,
    )


def _known(image: Array, how: Settings, sigma: float) -> Known:
    """What was seen and, where no patch sees enough, what the coarser image says."""
    beyond = out_of_reach(image, how.patch)
    if not beyond.any():
        return Known(image, np.zeros(image.shape), sigma)
    h, w, _ = image.shape
    small = halved(image)
    filled, sd = _coarser(small, how, sigma)
    # The coarse image knows the means of 2 x 2 pixels; how far pixels are from those is seen
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
    """The image at half its size, filled, with standard deviations."""
    h, w, _ = small.shape
    missing = np.isnan(small)
    if min(h, w) < 4 or not missing.any():
        return pull_push(small), np.where(missing, float(np.nanstd(small)), sigma)
    result = fill(small, how.shrunk_to(small.shape), sigma)
    return result.values, result.sd


def _learned(
    values: Array, predicted: NDArray[np.bool_], how: Settings, sigma: float
) -> list[Gaussian]:
    """From patches that saw something; predictions from a coarser image are left out."""
    h, w, c = values.shape
    observed_only = np.where(predicted, np.nan, values)
    y, x = Grid(h, w, how.patch, 1).corners()
    witnesses = np.flatnonzero(counts(~np.isnan(observed_only), how.patch)[y, x])
    at = witnesses[sample_rows(len(witnesses), LEARNED_FROM, how.rng)]
    patches = IncompletePatches.of(patches_at(observed_only, y[at], x[at], how.patch))
    smooth = patches_at(pull_push(values), y[at], x[at], how.patch)
    recipe = Recipe(how.n_mixture, how.rank, STEPS, sigma**2)
    return fit_gaussians(patches, smooth, c, recipe, how.rng)
