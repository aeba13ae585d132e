"""Single entries that no white noise explains: hot pixels, dead ones, salt and pepper.

One value of a million among hundreds outweighs all others in a covariance, and what is learned from
its patches is learned from it. An entry is an impulse if it lies too far from all of its
eight neighbours but one: edges and lines have more neighbours of their kind. In a noisy image too
far is many times what neighbours usually differ by; one without noise has sharp dots of its own,
and there it is many times the range of all intensities. The median of the neighbours stands for an
impulse while the rest of the image is restored. Whether it is a fault or a star cannot
be decided here, so it stays as it was given, with a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import ImpulseNoiseWarning
from eigengap.images.image import Restored, StandardisedImage
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.wording import words

Bools = NDArray[np.bool_]

ABSURD = 50.0  # standard deviations of the noise, or of what neighbours differ by
USUAL = 0.05  # share of steps that are not 0 if they show what is usual
RANGES = 10.0  # that hold 98 % of the entries
NORMAL = 1.4826  # standard deviation of a normal over its median absolute deviation
AROUND = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


@dataclass(frozen=True)
class Far:
    """How far from its neighbours an entry is an impulse; 0 if none is."""

    distance: float
    in_words: str


def beyond_noise(values: Array, sigma: float) -> Far:
    """In noise of standard deviation sigma, as far as that is known; else 0."""
    steps = np.abs(np.diff(values, axis=1))
    moving = steps[steps > 0.0]  # a border without noise is uninformative
    enough = USUAL * np.count_nonzero(~np.isnan(steps))
    usual = NORMAL * float(np.median(moving)) / 2**0.5 if len(moving) > enough else 0.0
    return Far(ABSURD * max(usual, sigma), f"over {ABSURD:g} times the usual step")


def beyond_range(values: Array) -> Far:
    """In an image without noise."""
    low, high = np.nanpercentile(values, [1.0, 99.0])
    return Far(RANGES * float(high - low), f"over {RANGES:g} times the range of the others")


def tamed(image: StandardisedImage, far: Far) -> tuple[StandardisedImage, Bools]:
    """The image with medians instead of its impulses, centred anew; and where they are."""
    values, impulses = without_impulses(image.values, far.distance)
    if not impulses.any():
        return image, impulses
    y, x, channel = (words().number(int(place)) for place in np.argwhere(impulses)[0])
    lie, first, that, it = (
        ("1 entry lies", "", "It is", "it")
        if impulses.sum() == 1
        else (f"{impulses.sum()} entries lie", "the first ", "They are", "them")
    )
    warn(
        f"{lie} {far.in_words} from all neighbours but one ({first}at row {y}, column {x}, "
        f"channel {channel}{words().either(', counted from 0')}). {that} kept from learning and "
        f"left as given; put NaN there to have {it} imputed",
        ImpulseNoiseWarning,
    )
    centre, unit = float(np.nanmean(values)), float(np.nanstd(values))
    is_flat = unit == 0.0
    calm = replace(
        image,
        values=(values - centre) / (1.0 if is_flat else unit),
        mean=image.mean + centre * image.sd,
        sd=image.sd * (1.0 if is_flat else unit),
        is_flat=is_flat,
    )
    return calm, impulses


def put_back(restored: Restored, given: NDArray[np.generic], impulses: Bools) -> Restored:
    """The same with its impulses as they were given, each with the noise for its error."""
    if not impulses.any():
        return restored
    at = impulses[..., 0]
    if given.ndim == 3:  # none of a channel of opacity is an impulse
        at = np.pad(impulses, [(0, 0), (0, 0), (0, given.shape[2] - impulses.shape[2])])
    return replace(
        restored,
        image=np.where(at, given, restored.image),
        sd=np.where(at, restored.sd.dtype.type(restored.noise_sd), restored.sd),
    )


def without_impulses(values: Array, far: float) -> tuple[Array, Bools]:
    """(h, w, c) with medians of their neighbours instead of impulses, and where these are."""
    impulses = np.zeros(values.shape, dtype=bool)
    if far == 0.0:
        return values, impulses
    wide = np.pad(values, [(1, 1), (1, 1), (0, 0)], mode="reflect")  # lines go on beyond the edge
    # Observed entries that are far from one next to, above or below them, or have none there
    unlike = np.zeros(values.shape, dtype=bool)
    for axis in (0, 1):
        near = np.abs(np.diff(values, axis=axis)) <= far  # which NaN is not
        unlike |= ~np.insert(near, 0, True, axis) | ~np.insert(near, near.shape[axis], True, axis)
    y, x, k = np.nonzero(unlike & ~np.isnan(values))
    around = np.sort([wide[y + 1 + i, x + 1 + j, k] for i, j in AROUND], axis=0)  # NaN come last
    observed = 8 - np.isnan(around).sum(axis=0)
    own, column = values[y, x, k], np.arange(len(y))
    middle = 0.5 * (around[(observed - 1) // 2, column] + around[observed // 2, column])
    below, above = around[1], around[np.maximum(observed - 2, 0), column]
    # An entry among missing ones has no neighbours to be unlike: the whole image is asked.
    lonely, (low, high) = observed < 3, np.nanpercentile(values, [1.0, 99.0])
    below, above = np.where(lonely, low, below), np.where(lonely, high, above)
    found = (own < below - far) | (own > above + far)
    impulses[y[found], x[found], k[found]] = True
    calm = values.copy()
    calm[impulses] = np.where(lonely, 0.5 * (low + high), middle)[found]
    return calm, impulses
