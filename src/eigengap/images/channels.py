"""Channels that say the same: grey stored as red, green and blue, or tinted, or one colour alone.

Their noise is the same too, and so is no white noise over all entries: in the directions in which
the channels always agree there is none, and what is learned from those is that there is none at
all. Such an image is restored in as many channels as it has, coordinates along the axes of the
c x c covariance of its pixels, and comes back in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array

AGREE = 1e-10  # variance along an axis, relative to the largest, that is rounding
WHOLE = 0.5  # share of the pixels that have all channels, or too much would be lost by merging them


@dataclass(frozen=True, eq=False)
class Channels:
    """The r axes in which pixels of c channels vary, and where they lie beside them."""

    axes: Array  # (c, r) orthonormal
    beside: Array  # (c,)

    @property
    def more(self) -> float:
        """What noise of 1 in each channel that varies is in each of the r that they come to."""
        noisy = np.count_nonzero(np.any(np.abs(self.axes) > 1e-6, axis=1))
        return float((noisy / self.axes.shape[1]) ** 0.5)

    def own(self, values: Array) -> Array:
        """(h, w, c) to (h, w, r)."""
        return values @ self.axes

    def all(self, own: Array) -> Array:
        """(h, w, r) to (h, w, c)."""
        return own @ self.axes.T + self.beside

    def spread(self, sd: Array) -> Array:
        """Standard deviations (h, w, r) to (h, w, c)."""
        return np.sqrt(sd**2 @ (self.axes**2).T)


def own_channels(values: Array, step: float) -> Channels:
    """Those of (h, w, c): all as they are if all vary.

    `step` is that between whole numbers, or 0: agreeing channels differ by rounding.
    """
    c = values.shape[2]
    pixels = values.reshape(-1, c)
    whole = ~np.isnan(pixels).any(axis=1)
    as_they_are = Channels(np.eye(c), np.zeros(c))
    if c == 1 or np.count_nonzero(whole) < max(2.0, WHOLE * len(pixels)):
        return as_they_are
    pixels = pixels[whole]
    lam, V = np.linalg.eigh(np.cov(pixels, rowvar=False))
    varies = lam > max(AGREE * lam[-1], 0.25 * step**2)
    if varies.all() or not varies.any():  # all, or one colour but for rounding
        return as_they_are
    axes, mean = V[:, varies], pixels.mean(axis=0)
    return Channels(axes, mean - axes @ (axes.T @ mean))
