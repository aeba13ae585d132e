"""A picture with gaps at half its size, and at twice; and its gaps filled smoothly by both.

Pull-push (Gortler, Grzeszczuk, Szeliski and Cohen 1996, "The lumigraph"): means over 2 x 2 pixels
of what was seen, again and again until nothing is missing; then back up, each level's gaps filled
from the one below by linear interpolation. It reaches across any hole, and is as blurred as the
hole is wide.
"""

from __future__ import annotations

import numpy as np

from eigengap.linalg import Array


def halved(picture: Array) -> Array:
    """Means over 2 x 2 pixels of the seen entries of (h, w, c); NaN where none was seen."""
    total, count = _blocks(np.nan_to_num(picture)), _blocks((~np.isnan(picture)).astype(float))
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.where(count > 0, count, np.nan))


def doubled(picture: Array, height: int, width: int) -> Array:
    """(h, w, c) to (height, width, c), about twice as large, by linear interpolation."""
    return _stretched(_stretched(picture, height, 0), width, 1)


def pull_push(picture: Array) -> Array:
    """The gaps of (h, w, c) filled; channels without a seen entry get 0."""
    missing = np.isnan(picture)
    if not missing.any():
        return picture
    h, w, _ = picture.shape
    if max(h, w) == 1:
        return np.where(missing, 0.0, picture)
    return np.where(missing, doubled(pull_push(halved(picture)), h, w), picture)


def _blocks(picture: Array) -> Array:
    h, w, c = picture.shape
    even = np.pad(picture, ((0, h % 2), (0, w % 2), (0, 0)))
    return np.asarray(even.reshape((h + 1) // 2, 2, (w + 1) // 2, 2, c).sum(axis=(1, 3)))


def _stretched(picture: Array, length: int, axis: int) -> Array:
    at = np.clip((np.arange(length) + 0.5) / 2.0 - 0.5, 0.0, picture.shape[axis] - 1.0)
    below = np.floor(at).astype(np.intp)
    above = np.minimum(below + 1, picture.shape[axis] - 1)
    share = (at - below).reshape([-1 if k == axis else 1 for k in range(picture.ndim)])
    lower, upper = np.take(picture, below, axis), np.take(picture, above, axis)
    return np.asarray(lower * (1.0 - share) + upper * share)
