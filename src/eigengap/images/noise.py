"""The standard deviation of white noise in a picture, from the spectrum of its patches.

Patches of a clean picture lie near a subspace, so the smallest eigenvalues of the covariance of
noisy patches are those of the noise alone: sigma2, as in PPCA. How many they are is told by the
values themselves (Chen, Zhu and Heng 2015, "An efficient statistical method for image noise level
estimation"): noise is spread evenly about its mean, so the largest are dropped until mean and
median of the rest agree. Patches with much texture fill the whole space and would be taken for
noise; the half with the least variance after averaging over 2 x 2 pixels are asked (the weak
textures of Liu, Tanaka and Okutomi 2012), and only about what these averages leave: in white noise
the two are independent, so that asking the calm ones does not make the noise smaller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

CALM = 0.5  # share of the patches that are asked
EVEN = 1.01  # mean over median of eigenvalues of noise alone, which few patches spread a little


def noise_sd(patches: NDArray[np.floating], channels: int) -> float:
    """Standard deviation of the noise in complete patches (n, p * p * channels), p >= 2."""
    coarse, detail = coarse_and_detail(patches, channels)
    spread = coarse.var(axis=1).sum(axis=1)
    keep = max(int(CALM * len(patches)), min(len(patches), 4 * patches.shape[1]))
    calm = detail[np.sort(np.argpartition(spread, keep - 1)[:keep])]
    lam = np.asarray(np.linalg.eigvalsh(covariance(calm))[::-1], dtype=np.float64)
    return float(np.sqrt(noise_eigenvalue(lam[: 3 * detail.shape[1] // 4])))  # others are 0


def coarse_and_detail(
    patches: NDArray[np.floating], channels: int
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Means over 2 x 2 pixels (n, blocks, c), and the rest (n, d'), of which a quarter is 0.

    Of an odd patch the last row and column are left out.
    """
    n, d = patches.shape
    side = round((d / channels) ** 0.5)
    half = side // 2
    square = patches.reshape(n, side, side, channels)[:, : 2 * half, : 2 * half]
    blocks = square.reshape(n, half, 2, half, 2, channels)
    means = blocks.mean(axis=(2, 4), keepdims=True)
    return means.reshape(n, half * half, channels), (blocks - means).reshape(n, -1)


def noise_eigenvalue(descending: Array) -> float:
    """Mean of the smallest eigenvalues that are spread about their mean as noise is."""
    values = np.maximum(descending, 0.0)
    for first in range(len(values)):
        rest = values[first:]
        if np.mean(rest) <= EVEN * np.median(rest):
            return float(np.mean(rest))
    return float(values[-1])


def covariance(patches: NDArray[np.floating]) -> Array:
    """Covariance (d, d) of the rows, divisor n."""
    centred = patches - patches.mean(axis=0)
    return np.asarray(centred.T @ centred / len(patches), dtype=np.float64)
