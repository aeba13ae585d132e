"""An incomplete image at half and at twice its size, and missing values imputed by both.

Pull-push (Gortler, Grzeszczuk, Szeliski and Cohen 1996, "The lumigraph"): means over 2 x 2 pixels
of what was seen, again and again until nothing is missing; then back up, each level's missing
values imputed from the one below by linear interpolation. It reaches across any hole, and is as
blurred as the hole is wide.
"""

from __future__ import annotations

import numpy as np

from eigengap.linalg import Array


def halved(image: Array) -> Array:
    """Means over 2 x 2 pixels of the seen entries of (h, w, c); NaN where none was seen."""
    total, count = _blocks(np.nan_to_num(image)), _blocks((~np.isnan(image)).astype(float))
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.where(count > 0, count, np.nan))


def doubled(image: Array, height: int, width: int) -> Array:
    """(h, w, c) to (height, width, c), about twice as large, by linear interpolation."""
    return _stretched(_stretched(image, height, 0), width, 1)


def pull_push(image: Array) -> Array:
    """The gaps of (h, w, c) filled; channels without a seen entry get 0."""
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
