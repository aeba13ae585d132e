"""`denoise_image`: an image without its noise, from patches of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.images.arguments import Settings, noise_of, relative, settings
from eigengap.images.channels import Channels, own_channels
from eigengap.images.filling import fill
from eigengap.images.image import StandardisedImage, standardised
from eigengap.images.impulses import beyond_noise, put_back, tamed
from eigengap.images.inpainting import as_it_is
from eigengap.images.mixture import PatchMixture, fit_mixture, in_order, in_words, sample_rows
from eigengap.images.noise import learned_noise, limits, unclipped
from eigengap.images.patches import Canvas, Grid, patches_at
from eigengap.images.restored import Restored, mixture_of
from eigengap.linalg import Array

LEARNED_FROM = 30_000  # patches at most
TILE = 4096  # patches that are restored at a time
FAINT = 0.02  # noise, likewise, below which it looks like rounding to seven digits
NONE = 1e-6  # noise, relative to the standard deviation of the image, that counts as none


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
    """Remove white Gaussian noise from an image.

    Overlapping patches are modelled by a mixture of PPCAs in white noise, learned from this noisy
    image alone; every patch is replaced by its expected clean self, and the opinions of
    overlapping patches are averaged by their precisions.

    Parameters
    ----------
    image : array of shape (h, w) or (h, w, c)
        uint8, uint16, float32 or float64. NaN is missing, and is filled. Single entries that are
        too far from their neighbours for any noise are reported in a warning and stay as they are.
    patch : int, default=8
        Side of the patches; a smaller image makes it smaller.
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
        spectrum of the patches, of which there have to be 30: some 7 x 7 pixels.
    opacity : bool, default=None
        Whether the last channel is opacity, which stays as it is. None: where there are 2 or 4.
    random_state : int, Generator, RandomState or None, default=None
        Draws the patches to learn from, and the first clusters. An int makes the result repeat.

    Returns
    -------
    Restored
        The image, of the shape and type of `image`, and the standard deviation of every entry.

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
    scaled = standardised(image, None, opacity)
    how = settings(scaled.shape, patch, stride, model, n_mixture, n_components, random_state)
    given = None if sigma is None else noise_of(sigma)
    far = beyond_noise(scaled.values, relative(given or 0.0, scaled.unit))
    calm, impulses = tamed(scaled, far)
    restored = put_back(_restored(calm, how, given), scaled.given, impulses)
    return restored if given is None else replace(restored, noise_sd=given)


def _restored(image: StandardisedImage, how: Settings, sigma: float | None) -> Restored:
    if image.is_flat:
        return _flat(image, how, sigma or 0.0)
    step = 1.0 / image.unit if image.given.dtype.kind == "u" else 0.0
    channels = own_channels(image.values, step)
    values = channels.own(image.values)
    noise = _noise(values, how, sigma, image.unit / channels.more)
    if image.missing.any():
        return _with_missing(image, channels, values, how, noise)
    if noise < NONE:
        return as_it_is(image, how.patch, how.stride)
    mixture = _learned(values, how, noise)
    mean, sd, tiles = _painted(values, mixture, how)
    mean, sd = unclipped(mean, sd, limits(values), noise)
    return Restored(
        image=image.restored(channels.all(mean)),
        sd=image.spread(np.minimum(channels.spread(sd), 1.0)),  # of its mean throughout
        noise_sd=noise / channels.more * image.unit,
        model=f"{_model(mixture)} on {how.patch} x {how.patch} patches",
        n_mixture=len(mixture.components),
        ranks=mixture.ranks,
        patch=how.patch,
        stride=how.stride,
        tiles=tiles,
    )


def _noise(values: Array, how: Settings, sigma: float | None, unit: float) -> float:
    """Of the values, learned or given."""
    if sigma is None:
        return learned_noise(values, how.patch, how.rng)
    return relative(sigma, unit)


def _model(mixture: PatchMixture) -> str:
    return f"{mixture_of(len(mixture.components), 'PPCA')}, {in_words(mixture.ranks)},"


def _flat(image: StandardisedImage, how: Settings, sigma: float) -> Restored:
    """One intensity throughout, estimated from all observed entries."""
    found = as_it_is(image, how.patch, how.stride)
    if sigma == 0.0:
        return found
    error = sigma / np.sqrt(np.sum(~image.missing))
    return replace(found, sd=image.spread(np.full(image.shape, error / image.unit)))


def _learned(values: Array, how: Settings, noise: float) -> PatchMixture:
    h, w, _ = values.shape
    y, x = Grid(h, w, how.patch, 1).corners()
    at = sample_rows(len(y), LEARNED_FROM, how.rng)
    patches = patches_at(_digits(values, noise), y[at], x[at], how.patch)
    K = min(how.n_mixture, max(len(patches) // (2 * patches.shape[1]), 1))
    return fit_mixture(patches, noise**2, K, how.rank, how.rng)


def _painted(values: Array, mixture: PatchMixture, how: Settings) -> tuple[Array, Array, int]:
    """Clean image (h, w, c), its standard deviations, and in how many pieces it was made."""
    single = _digits(values, mixture.sigma2**0.5)
    h, w, c = values.shape
    y, x = Grid(h, w, how.patch, how.stride).corners()
    canvas = Canvas((h, w, c), how.patch)
    tiles = [slice(start, start + TILE) for start in range(0, len(y), TILE)]

    def posterior(tile: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        return mixture.posterior(patches_at(single, y[tile], x[tile], how.patch))

    for tile, (mean, variance) in zip(tiles, in_order(posterior, tiles), strict=True):
        canvas.add(mean, 1.0 / variance, y[tile], x[tile])
    return canvas.mean(), np.sqrt(canvas.variance()), len(tiles)


def _digits(values: Array, noise: float) -> NDArray[Any]:
    """Single precision, twice as fast, where it is enough."""
    return values if noise < FAINT else values.astype(np.float32)


def _with_missing(
    image: StandardisedImage, channels: Channels, values: Array, how: Settings, noise: float
) -> Restored:
    """Entries that are missing are filled, the others freed from noise, by the same patches."""
    filled = fill(values, how, max(noise, NONE))
    K, d = len(filled.gaussians), len(filled.gaussians[0].mu)
    return Restored(
        image=image.restored(channels.all(filled.values)),
        sd=image.spread(channels.spread(filled.sd)),
        noise_sd=noise / channels.more * image.unit,
        model=f"{mixture_of(K, 'Gaussian')} in noise on {how.patch} x {how.patch} patches",
        n_mixture=K,
        ranks=(how.rank or d,) * K,
        patch=how.patch,
        stride=how.stride,
        n_missing=int(image.missing.sum()),
        sd_scale=filled.scale,
        tiles=filled.tiles,
    )
