"""`denoise_image`: a picture without its noise, from patches of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.images.arguments import Settings, noise_of, settings
from eigengap.images.filling import fill
from eigengap.images.inpainting import as_it_is
from eigengap.images.mixture import PatchMixture, fit_mixture, in_words, sample_rows
from eigengap.images.noise import noise_sd
from eigengap.images.patches import Canvas, Grid, patches_at
from eigengap.images.picture import Picture, as_picture
from eigengap.images.restored import Restored
from eigengap.linalg import Array
from eigengap.side_by_side import in_order

LEARNED_FROM = 30_000  # patches at most
ASKED_FOR_NOISE = 40_000
TILE = 4096  # patches that are restored at a time
ENOUGH = 80  # complete patches for each of their entries from which to learn the noise
SMALLEST, FEWEST = 3, 30  # side of patches, and number, that have to do where there are no more
FAINT = 0.02  # noise, likewise, below which seven digits do not tell it from rounding
NONE = 1e-6  # noise, relative to the standard deviation of the picture, that counts as none


def denoise_image(
    image: Any,
    *,
    patch: int = 8,
    stride: int = 1,
    model: str = "mixture",
    n_mixture: int = 20,
    n_components: int | str = "auto",
    sigma: float | None = None,
    opacity: bool | None = None,
    random_state: Any = None,
) -> Restored:
    """Remove white Gaussian noise from a picture.

    Overlapping patches are modelled by a mixture of PPCAs in white noise, learned from this noisy
    picture alone; every patch is replaced by its expected clean self, and the opinions of
    overlapping patches are averaged by their precisions.

    Parameters
    ----------
    image : array of shape (h, w) or (h, w, c)
        uint8, uint16, float32 or float64. NaN is missing, and is filled.
    patch : int, default=8
        Side of the patches; a smaller picture makes it smaller.
    stride : int, default=1
        Pixels from one patch to the next. More is faster, and loses a little.
    model : {"mixture", "ppca"}, default="mixture"
        A mixture, or one PPCA for all patches.
    n_mixture : int, default=20
        Components of the mixture, at most: those that find too few patches are dropped.
    n_components : int or "auto", default="auto"
        Rank of every PPCA. "auto" counts the axes of each component whose variance stands above
        the edge of the spectrum of the noise.
    sigma : float, default=None
        Standard deviation of the noise, in the units of the image. None learns it from the
        spectrum of the patches.
    opacity : bool, default=None
        Whether the last channel is opacity, which stays as it is. None: where there are 2 or 4.
    random_state : int, Generator, RandomState or None, default=None
        Draws the patches to learn from, and the first clusters. An int makes the result repeat.

    Returns
    -------
    Restored
        The picture, of the shape and type of `image`, and the standard deviation of every entry.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap.images import denoise_image
    >>> y, x = np.mgrid[:48, :48]
    >>> clean = 100.0 + 50.0 * np.sin(x / 5.0) + y
    >>> noisy = clean + np.random.default_rng(0).normal(0.0, 10.0, clean.shape)
    >>> restored = denoise_image(noisy, random_state=0)
    >>> bool(9.0 < restored.noise_sd < 11.0)
    True
    >>> bool(np.std(restored - clean) < 4.0)
    True
    """
    picture = as_picture(image, None, opacity)
    how = settings(picture.shape, patch, stride, model, n_mixture, n_components, random_state)
    given = None if sigma is None else noise_of(sigma) / picture.unit
    if picture.is_flat:
        return as_it_is(picture, how.patch, how.stride)
    noise = learned_noise(picture.values, how) if given is None else given
    if noise < NONE and not picture.missing.any():
        return as_it_is(picture, how.patch, how.stride)
    if picture.missing.any():
        return _with_gaps(picture, how, noise)
    mixture = _learned(picture.values, how, noise)
    values, sd, tiles = _restored(picture.values, mixture, how)
    K = len(mixture.components)
    kind = "PPCA" if K == 1 else f"mixture of {K} PPCAs"
    return Restored(
        image=picture.restored(values),
        sd=picture.spread(sd),
        noise_sd=noise * picture.unit,
        model=f"{kind}, {in_words(mixture.ranks)}, on {how.patch} x {how.patch} patches",
        n_mixture=K,
        ranks=mixture.ranks,
        patch=how.patch,
        stride=how.stride,
        tiles=tiles,
    )


def learned_noise(values: Array, how: Settings) -> float:
    """Standard deviation of the noise of (h, w, c), from its patches without gaps.

    Patches are as large as `how.patch` where there are enough: the eigenvalues of a covariance of
    few rows are spread, and the smallest of them too small.
    """
    h, w, c = values.shape
    for side in range(how.patch, 1, -1):
        y, x = Grid(h, w, side, 1).corners()
        at = sample_rows(len(y), ASKED_FOR_NOISE, how.rng)
        patches = patches_at(values, y[at], x[at], side)
        complete = patches[~np.isnan(patches).any(axis=1)]
        if len(complete) >= ENOUGH * complete.shape[1]:
            return noise_sd(complete, c)
        if side <= SMALLEST and len(complete) >= FEWEST:
            return noise_sd(complete, c)
    raise ValueError(
        f"only {len(complete)} patches of {side} x {side} pixels are complete, too few to learn "
        "the noise from: give sigma, its standard deviation"
    )


def _learned(values: Array, how: Settings, noise: float) -> PatchMixture:
    h, w, _ = values.shape
    y, x = Grid(h, w, how.patch, 1).corners()
    at = sample_rows(len(y), LEARNED_FROM, how.rng)
    patches = patches_at(_digits(values, noise), y[at], x[at], how.patch)
    K = min(how.n_mixture, max(len(patches) // (2 * patches.shape[1]), 1))
    return fit_mixture(patches, noise**2, K, how.rank, how.rng)


def _restored(values: Array, mixture: PatchMixture, how: Settings) -> tuple[Array, Array, int]:
    """Clean picture (h, w, c), its standard deviations, and in how many pieces it was made."""
    single = _digits(values, mixture.sigma2**0.5)
    h, w, c = values.shape
    y, x = Grid(h, w, how.patch, how.stride).corners()
    canvas = Canvas((h, w, c), how.patch)
    tiles = [slice(start, start + TILE) for start in range(0, len(y), TILE)]

    def posterior(tile: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        return mixture.posterior(patches_at(single, y[tile], x[tile], how.patch))

    for tile, (mean, variance) in zip(tiles, in_order(posterior, iter(tiles)), strict=True):
        canvas.add(mean, 1.0 / variance, y[tile], x[tile])
    return canvas.mean(), np.sqrt(canvas.variance()), len(tiles)


def _digits(values: Array, noise: float) -> NDArray[Any]:
    """Single precision, twice as fast, where it is enough."""
    return values if noise < FAINT else values.astype(np.float32)


def _with_gaps(picture: Picture, how: Settings, noise: float) -> Restored:
    """Entries that are missing are filled, the others freed from noise, by the same patches."""
    filled = fill(picture.values, how, max(noise, NONE))
    K, d = len(filled.gaussians), len(filled.gaussians[0].mu)
    return Restored(
        image=picture.restored(filled.values),
        sd=picture.spread(filled.sd),
        noise_sd=noise * picture.unit,
        model=f"mixture of {K} Gaussians in noise on {how.patch} x {how.patch} patches",
        n_mixture=K,
        ranks=(how.rank or d,) * K,
        patch=how.patch,
        stride=how.stride,
        n_missing=int(picture.missing.sum()),
        sd_scale=filled.scale,
        tiles=filled.tiles,
    )
