"""Missing entries of an image, imputed from the patches around them, from coarse to fine.

Every patch is conditioned on what was observed of it under each component of the mixture, and what
its conditional means are averaged over overlaps by their precisions. Where a hole is so wide that
no patch has more than a few observed entries the image at half its size is imputed first, by the
same method, and its result, doubled, enters the patches of the hole, with a doubt: the middle of a
hole is predicted from the coarsest image that reaches across it. That doubt, a standard
deviation s, reaches the other entries through the same gains G as the predicted ones themselves:
coarse images err on whole areas at once, so that the errors of one patch's doubtful entries are
taken to go together, and add (G s)^2 to the variance.

A Gaussian's own standard deviations are as good as the Gaussian. So a few of the observed entries,
the calibration set, are held out and imputed as if they were missing, and all standard deviations
are multiplied by one number: that which makes 95 % intervals cover 95 % of the set (split conformal
prediction: Lei, G'Sell, Rinaldo, Tibshirani and Wasserman 2018). Entries are held out as they go
missing: where a missing entry takes all channels of a pixel, or its neighbours, with it, so does a
held-out one. A large image has enough of them in a few windows, and a fit without them is as good
as one to all entries. In a small one every entry is held out in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from eigengap.images import patches as overlapping
from eigengap.images.arguments import Settings
from eigengap.images.gaussians import (
    Gaussian,
    IncompletePatches,
    Recipe,
    conditional,
    deviances,
    fit_gaussians,
    responsibilities,
)
from eigengap.images.patches import Ints, corners, counts, patches_at, sample_rows
from eigengap.linalg import Array

Bools = NDArray[np.bool_]
Window = tuple[slice, slice]
Learner = Callable[[Array], list[Gaussian]]  # from (h, w, c) with NaN

LEARNED_FROM = 15_000  # patches at most
STEPS = 8  # of EM
MOST = 2.0  # standard deviations of the image: its mean is hardly a worse guess than that
SEES_LITTLE = 0.04  # share of a patch's entries below which it does not determine the others

COUNTS = 0.05  # responsibility that counts for nothing
LEAST = 1e-9  # variance, or one patch would outweigh all

SIDE, WINDOWS = 64, 6  # pixels, and number, of the windows in which observed entries are held out
ROUNDS = 10  # in which a tenth of the observed entries each is held out, if one is not enough
ENOUGH = 100  # held-out entries
FEWEST = 19  # of which the worst bounds 95 % of what is to come
LEVEL, NORMAL = 0.95, 1.959964


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of an image before its patches are asked."""

    values: Array  # (h, w, c) NaN where nothing is
    doubt: Array  # (h, w, c) standard deviation if predicted by a coarser image, else 0
    sigma: float  # of the noise on what was observed

    def without(self, hidden: Bools) -> Known:
        """The same with more entries hidden."""
        return Known(np.where(hidden, np.nan, self.values), self.doubt, self.sigma)

    def within(self, window: tuple[slice, slice]) -> Known:
        return Known(self.values[window], self.doubt[window], self.sigma)


@dataclass(frozen=True, eq=False)
class Imputed:
    """An image without missing entries."""

    values: Array  # (h, w, c)
    sd: Array  # (h, w, c)
    gaussians: list[Gaussian]
    scale: float  # of the standard deviations
    tiles: int


def impute(image: Array, how: Settings, sigma: float) -> Imputed:
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
    return Imputed(
        values=np.where(kept, known.values, mean),
        sd=np.where(kept, known.doubt, np.clip(scale * sd, least, MOST)),
        gaussians=gaussians,
        scale=scale,
        tiles=tiles,
    )


def _known(image: Array, how: Settings, sigma: float) -> Known:
    """What was observed and, where no patch sees enough, the coarser image's prediction."""
    beyond = out_of_reach(image, how.patch)
    if not beyond.any():
        return Known(image, np.zeros(image.shape), sigma)
    h, w, _ = image.shape
    small = halved(image)
    imputed, sd = _coarser(small, how, sigma)
    # The coarse image has the means of 2 x 2 pixels; how far pixels are from those is observed
    # around the hole.
    detail2 = pull_push((image - doubled(pull_push(small), h, w)) ** 2)
    doubt = np.sqrt(doubled(sd, h, w) ** 2 + detail2)
    return Known(
        values=np.where(beyond, doubled(imputed, h, w), image),
        doubt=np.where(beyond, np.maximum(doubt, np.finfo(float).tiny), 0.0),
        sigma=sigma,
    )


def out_of_reach(image: Array, patch: int) -> Bools:
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
    result = impute(small, how.shrunk_to(small.shape), sigma)
    return result.values, result.sd


def _learned(values: Array, predicted: Bools, how: Settings, sigma: float) -> list[Gaussian]:
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


# What patches predict -----------------------------------------------------------------------------


def painted(known: Known, gaussians: list[Gaussian], how: Settings) -> tuple[Array, Array, int]:
    """The patches' predictions of every entry that any of them predicts.

    Mean and standard deviation (h, w, c), and the number of pieces in which they were asked.
    """
    h, w, c = known.values.shape
    y, x = corners(h, w, how.patch, how.stride)
    if known.sigma == 0.0:  # complete patches have nothing to predict
        missing = counts(np.isnan(known.values), how.patch)[y, x] > 0
        y, x = y[missing], x[missing]

    def predictions(y: Ints, x: Ints) -> tuple[Array, Array]:
        patches = IncompletePatches.of(patches_at(known.values, y, x, how.patch))
        doubt = patches_at(known.doubt, y, x, how.patch)
        return _predictions(patches, doubt, gaussians, known.sigma**2)

    return overlapping.painted((h, w, c), how.patch, (y, x), predictions)


def _predictions(
    patches: IncompletePatches, doubt: Array, gaussians: list[Gaussian], sigma2: float
) -> tuple[Array, Array]:
    """Mean and variance over the components, by the law of total variance: (n, d), (n, d)."""
    resp = responsibilities(deviances(patches, gaussians, sigma2))
    resp[(resp < COUNTS) & (resp < resp.max(axis=1, keepdims=True))] = 0.0
    resp /= resp.sum(axis=1, keepdims=True)
    mean, second = np.zeros(patches.values.shape), np.zeros(patches.values.shape)
    for k, one in enumerate(gaussians):
        at = np.flatnonzero(resp[:, k])
        if len(at) == 0:
            continue
        expected, within = conditional(patches.take(at), one, sigma2)
        r = resp[at, k][:, None]
        mean[at] += r * expected
        second[at] += r * (within + expected**2)
    variance = np.maximum(second - mean**2, LEAST)
    doubtful = np.flatnonzero(doubt.any(axis=1))
    if len(doubtful):
        observed = patches.observed[doubtful]
        shift = _carried(doubt[doubtful], observed, resp[doubtful], gaussians, sigma2)
        variance[doubtful] += shift**2
    return mean, variance


def _carried(
    doubt: Array, observed: Bools, resp: Array, gaussians: list[Gaussian], sigma2: float
) -> Array:
    """G s: how far the mean would move if every doubtful entry moved by its doubt: (n, d)."""
    shift = np.zeros(doubt.shape)
    for k, one in enumerate(gaussians):
        at = np.flatnonzero(resp[:, k])
        if len(at):
            moved = IncompletePatches(one.mu + doubt[at], observed[at])
            shift[at] += resp[at, k][:, None] * (conditional(moved, one, sigma2).mean - one.mu)
    return shift


# Trials -------------------------------------------------------------------------------------------


def tried(known: Known, learn: Learner, how: Settings) -> tuple[list[Gaussian], float, float]:
    """Learn, calibrate, and learn again where the held-out entries were needed for that.

    Returns what was learned, the factor of its standard deviations, and what none of them should be
    below: 0 where enough entries were held out.
    """
    down, across = thickness(np.isnan(known.values))
    turn = _turns(known, min(down, how.patch), min(across, how.patch), how.rng)
    h, w, _ = turn.shape
    windows = [
        (_stretch(h, how.rng), _stretch(w, how.rng))
        for _ in range(1 if max(h, w) <= SIDE else WINDOWS)
    ]
    inside = np.zeros(turn.shape, dtype=bool)
    for window in windows:
        inside[window] = True
    held_out = inside & (turn == 0)
    # Held-out entries that are noisy, or smaller than the holes, do not justify a factor below 1.
    least = 1.0 if known.sigma > 0.0 or max(down, across) > how.patch else 0.0
    if np.count_nonzero(held_out) >= ENOUGH:
        gaussians = learn(known.without(held_out).values)
        z = _misses(known, held_out, windows, gaussians, how)
        return gaussians, max(_scale(z), least), 0.0
    z = np.concatenate([np.empty(0), *_in_turn(known, turn, learn, how)])
    # The image has standard deviation 1: without calibration nothing is known better than that.
    return learn(known.values), max(_scale(z), least), 0.0 if len(z) >= FEWEST else 1.0


def _turns(known: Known, height: int, width: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """(h, w, c) the round in which an entry is held out, with its neighbours; -1 where missing."""
    missing = np.isnan(known.values)
    h, w, c = missing.shape
    stones = (-(-h // height), -(-w // width))  # with which the image is paved
    together = rng.random((*stones, c)) < togetherness(missing)
    of_all, of_each = (rng.integers(ROUNDS, size=(*stones, k)) for k in (1, c))
    turn = np.where(together, of_all, of_each).repeat(height, axis=0).repeat(width, axis=1)[:h, :w]
    return np.where(missing | (known.doubt > 0.0), -1, turn)


def togetherness(missing: Bools) -> float:
    """How much the channels of a pixel go missing together: 0 each by itself, 1 all at once."""
    others = missing.shape[2] - 1.0
    k = missing.sum(axis=2, dtype=float)
    n_missing, n_observed = float(np.sum(k)), float(np.sum(others + 1.0 - k))
    if others == 0.0 or n_missing == 0.0 or n_observed == 0.0:
        return 0.0
    with_missing, with_observed = np.sum(k * (k - 1.0)), np.sum(k * (others + 1.0 - k))
    return _more_often(with_missing / (n_missing * others), with_observed / (n_observed * others))


def thickness(missing: Bools) -> tuple[int, int]:
    """Pixels down and across, about, that go missing together; 1 where each goes by itself."""
    down = _run(missing[:-1], missing[1:])
    return down, _run(missing[:, :-1], missing[:, 1:])


def _run(this: Bools, updated: Bools) -> int:
    if this.all() or not this.any():
        return 1
    share = _more_often(float(np.mean(updated[this])), float(np.mean(updated[~this])))
    return round(1.0 / max(1.0 - share, 1e-3))


def _more_often(if_missing: float, if_observed: float) -> float:
    """With what probability a held-out entry has to take another one with it.

    That one is then as often missing as it is next to a missing entry.
    """
    return max((if_missing - if_observed) / (1.0 - if_observed), 0.0) if if_observed < 1.0 else 0.0


def _stretch(length: int, rng: np.random.Generator) -> slice:
    start = int(rng.integers(max(length - SIDE, 0) + 1))
    return slice(start, min(start + SIDE, length))


def _in_turn(
    known: Known, turn: NDArray[np.intp], learn: Learner, how: Settings
) -> Iterator[Array]:
    """Errors of the held-out entries of one round after another, as many as it takes."""
    everywhere = [(slice(None), slice(None))]
    total, observed = 0, int(np.count_nonzero(turn >= 0))
    for one in range(ROUNDS):
        held_out = turn == one
        n = int(np.count_nonzero(held_out))
        if total >= ENOUGH or n == 0 or n == observed:
            continue
        total += n
        yield _misses(known, held_out, everywhere, learn(known.without(held_out).values), how)


def _misses(
    known: Known, held_out: Bools, windows: list[Window], gaussians: list[Gaussian], how: Settings
) -> Array:
    """|error| in standard deviations, of every held-out entry in every window."""
    z = [np.empty(0)]
    for window in windows:
        here = held_out[window]
        if here.any():
            mean, sd, _ = painted(known.within(window).without(here), gaussians, how)
            error = known.values[window][here] - mean[here]
            z.append(np.abs(error) / np.hypot(sd[here], known.sigma))
    return np.concatenate(z)


def _scale(z: Array) -> float:
    """What makes 95 % intervals cover 95 % of what is to come, or all held-out entries if fewer."""
    if len(z) == 0:
        return 1.0
    rank = min(ceil(LEVEL * (len(z) + 1)), len(z))
    return float(np.partition(z, rank - 1)[rank - 1] / NORMAL)


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
