"""The standard deviation of white noise in an image, from the spectrum of its patches.

Patches of a clean image lie near a subspace, so the smallest eigenvalues of the covariance of
noisy patches are those of the noise alone: sigma2, as in PPCA. How many they are follows from the
values themselves (Chen, Zhu and Heng 2015, "An efficient statistical method for image noise level
estimation"): noise is symmetric about its mean, so the largest are dropped until mean and
median of the rest agree. Patches with much texture fill the whole space and would be taken for
noise; the quarter with the least variance after averaging over 2 x 2 pixels are asked (the weak
textures of Liu, Tanaka and Okutomi 2012), and only about what these averages leave: in white noise
the two are independent, so that asking the calm ones does not make the noise smaller.

For the same reason the averages may choose where nothing was clipped. Many entries that equal the
least or the largest of an image show that it was; patches whose averages keep clear of these
limits are asked then, and what clipping has still taken from noise at their distance is given back:
a normal z with mean a, clipped at 0, keeps of its variance 1

    (a^2 + 1) Phi(a) + a phi(a) - m^2,   with mean   m = a Phi(a) + phi(a).

The same m, solved for a, puts the restored image back to what it was before clipping.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.special import ndtr

from eigengap.images.patches import corners, patches_at, sample_rows
from eigengap.linalg import Array
from eigengap.runtime.threads import one_blas_thread
from eigengap.wording import words

Bools = NDArray[np.bool_]

ASKED = 40_000  # patches at most
ENOUGH = 5  # patches for each of their entries
FEWEST = 30  # patches of 2 x 2 pixels that have to do where there are no more
MOVING = 0.25  # share of the patches without still areas from which on the others are left out
CALM, LEAST_CALM = 0.25, 10  # share of the patches that are asked; at least so many an entry
DRAWN = 0.5  # share of neighbours that are equal in an image without noise
EVEN = 1.01  # mean over median of eigenvalues of noise alone
TIED = 1e-4  # share of the entries that equal the least, or the largest, if they were clipped there
STEPS, SETTLED = 4, 2e-3  # at most: how far from the limits is far depends on the noise


def learned_noise(values: Array, patch: int, rng: np.random.Generator) -> float:
    """Standard deviation of the noise of (h, w, c), from its complete patches.

    They are as large as `patch` where there are enough: the eigenvalues of a covariance of few
    rows are spread, and the smallest of them too small.
    """
    h, w, c = values.shape
    low, high = limits(values)
    unmoved = still(values)
    for side in range(patch - patch % 2, 1, -2):
        y, x = corners(h, w, side, 1)
        at = sample_rows(len(y), ASKED, rng)
        patches = patches_at(values, y[at], x[at], side)
        complete = ~np.isnan(patches).any(axis=1)
        moving = complete & ~patches_at(unmoved, y[at], x[at], side).any(axis=1)
        enough = ENOUGH * patches.shape[1] if side > 2 else FEWEST
        asked = moving if moving.sum() >= max(enough, MOVING * len(patches)) else complete
        if asked.sum() >= enough:
            if _is_drawn(patches[asked].reshape(-1, side, side, c), low, high):
                return 0.0
            with one_blas_thread():
                return noise_sd(patches[asked], c, low, high)
    raise ValueError(
        f"complete patches of 2 x 2 pixels: {int(complete.sum())}. The noise is learned from "
        f"{FEWEST} at least: give {words().parameter('sigma')}, its standard deviation"
    )


def _is_drawn(patches: Array, low: Array, high: Array) -> bool:
    """Whether most neighbours in patches (n, p, p, c) are equal, and not clipped: no noise does so.

    Icons and charts are drawn in areas of one colour. Whole numbers with noise of 0.5 are equal to
    their neighbours every other time.
    """
    here = patches[:, :, :-1]
    inside = (here > low) & (here < high)
    equal = (here == patches[:, :, 1:]) & inside
    return int(np.count_nonzero(equal)) > DRAWN * max(int(np.count_nonzero(inside)), 1)


def still(values: Array) -> Bools:
    """(h, w, c) entries that equal all eight around them, which noise would not leave so."""
    equal = np.zeros(values.shape, dtype=bool)
    if min(values.shape[:2]) >= 3:
        around = sliding_window_view(values, (3, 3), axis=(0, 1))
        equal[1:-1, 1:-1] = around.min(axis=(3, 4)) == around.max(axis=(3, 4))
    return equal


def limits(values: Array) -> tuple[Array, Array]:
    """Least and largest entry of every channel (c,) if it was clipped there, else -inf and inf."""
    low, high = np.nanmin(values, axis=(0, 1)), np.nanmax(values, axis=(0, 1))
    most = max(TIED * values.shape[0] * values.shape[1], 1.0)  # that may be equal by chance
    return (
        np.where((values == low).sum(axis=(0, 1)) > most, low, -np.inf),
        np.where((values == high).sum(axis=(0, 1)) > most, high, np.inf),
    )


def noise_sd(patches: Array, channels: int, low: Array, high: Array) -> float:
    """Standard deviation of the noise in complete patches (n, p * p * channels), p even.

    `low` and `high` (channels,) are where entries were clipped.
    """
    joint = _asked(patches, channels, low, high)
    sd = joint.noise_sd()
    if not np.isfinite([low, high]).any():
        return sd
    n = len(patches)  # every channel of every patch as a patch by itself
    by_channel = patches.reshape(n, -1, channels).transpose(2, 0, 1).reshape(n * channels, -1)
    single = _asked(by_channel, 1, np.repeat(low, n), np.repeat(high, n))
    # What to ask, how far from the limits (in sd), and the share of it that is enough. Channels by
    # themselves keep clear of the limits more often, and separate noise from texture less well.
    choices = [(joint, 2.0, 0.3), (single, 2.0, 0.1), (single, 1.0, 0.03)]
    for _ in range(STEPS):
        clear = (some.clear(far * sd, share) for some, far, share in choices)
        chosen = next((some for some in clear if some is not None), None)
        if chosen is None:
            break
        before, sd = sd, chosen.noise_sd(sd)
        if abs(sd - before) < SETTLED * sd:
            break
    return sd


@dataclass(frozen=True, eq=False)
class Asked:
    """Patches as averages over 2 x 2 pixels, and what these leave."""

    coarse: Array  # (n, blocks, c)
    detail: Array  # (n, d), of which a quarter is 0
    low: Array  # (n, 1, c) limits
    high: Array

    def clear(self, room: float, share: float) -> Asked | None:
        """Those that keep `room` from the limits, if they are this share and enough."""
        inside = (self.coarse >= self.low + room) & (self.coarse <= self.high - room)
        far = np.flatnonzero(inside.reshape(len(inside), -1).all(axis=1))
        enough = max(share * len(inside), LEAST_CALM * self.detail.shape[1])
        return self.take(far) if len(far) >= enough else None

    def take(self, at: NDArray[np.intp]) -> Asked:
        return Asked(self.coarse[at], self.detail[at], self.low[at], self.high[at])

    def calm(self) -> Asked:
        """Those that vary least, averaged."""
        n, blocks, _ = self.coarse.shape
        if blocks == 1:  # one average does not vary
            return self
        variance = self.coarse.var(axis=1).sum(axis=1)
        keep = max(int(CALM * n), min(n, LEAST_CALM * self.detail.shape[1]))
        return self.take(np.sort(np.argpartition(variance, keep - 1)[:keep]))

    def noise_sd(self, sd: float | None = None) -> float:
        """Standard deviation of the noise; `sd`, a first guess, is for what clipping took."""
        calm = self.calm()
        n, d = calm.detail.shape
        centred = calm.detail - calm.detail.mean(axis=0)
        C = (centred.T @ centred / n).astype(np.float64)
        lam = np.asarray(np.linalg.eigvalsh(C)[::-1][: 3 * d // 4], np.float64)  # others are 0
        variance = noise_eigenvalue(lam, EVEN + len(lam) / (3.0 * n))
        if sd is None or sd == 0.0:
            return float(np.sqrt(variance))
        left = left_by_clipping((calm.coarse - calm.low) / sd)
        left += left_by_clipping((calm.high - calm.coarse) / sd) - 1.0
        return float(np.sqrt(variance / left.mean()))


def _asked(patches: Array, channels: int, low: Array, high: Array) -> Asked:
    n, d = patches.shape
    half = round((d / channels) ** 0.5) // 2
    blocks = patches.reshape(n, half, 2, half, 2, channels)
    means = blocks.mean(axis=(2, 4), keepdims=True)
    low, high = (np.broadcast_to(x.reshape(-1, 1, channels), (n, 1, channels)) for x in (low, high))
    coarse, detail = means.reshape(n, half * half, channels), (blocks - means).reshape(n, -1)
    return Asked(coarse, detail, low, high)


def noise_eigenvalue(descending: Array, even: float = EVEN) -> float:
    """Mean of the smallest eigenvalues that are spread about their mean as noise is.

    `even` is how much the mean of noise may exceed its median; of n rows that are nothing but
    noise it does by the share d / 3n (Marchenko and Pastur 1967).
    """
    values = np.maximum(descending, 0.0)
    for first in range(len(values)):
        rest = values[first:]
        if np.mean(rest) <= even * np.median(rest):
            return float(np.mean(rest))
    return float(values[-1])


def left_by_clipping(distance: Array) -> Array:
    """Variance left of noise of variance 1 whose mean, after clipping, is so far from the limit."""
    _, mean, variance = _clipped_normals(-4.0)
    return np.interp(distance, mean, variance)


def unclipped(
    mean: Array, sd: Array, limits: tuple[Array, Array], noise: float
) -> tuple[Array, Array]:
    """Means of (h, w, c) before clipping, from those after it, and their standard deviations.

    What was clipped keeps away from the limit: black in noise of 25 is 10 on average. The mean
    before is taken to have been within the limits.
    """
    a, clipped, _ = _clipped_normals(0.0)
    low, high = limits
    below, above = (mean - low) / noise, (high - mean) / noise
    # How much further from each limit clipping has put the mean, and how much slower it moves
    moved = [np.minimum(np.interp(one, clipped, clipped - a), one) for one in (below, above)]
    steeper = [np.interp(one, clipped, 1.0 / ndtr(a)) for one in (below, above)]
    return mean + noise * (moved[1] - moved[0]), sd * steeper[0] * steeper[1]


@cache
def _clipped_normals(least: float) -> tuple[Array, Array, Array]:
    """Means a of normals of variance 1, and their means and variances when clipped at 0."""
    a = np.linspace(least, 8.0, 601)
    above, density = ndtr(a), np.exp(-0.5 * a**2) / np.sqrt(2.0 * np.pi)
    mean = a * above + density
    return a, mean, (a**2 + 1.0) * above + a * density - mean**2
