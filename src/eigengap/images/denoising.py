"""`denoise_image`: an image without its noise, from patches of itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.images.arguments import Settings, noise_of, relative, settings
from eigengap.images.image import Restored, StandardisedImage, mixture_of, standardised
from eigengap.images.impulses import beyond_noise, put_back, tamed
from eigengap.images.imputation import impute
from eigengap.images.inpainting import as_it_is, imputed
from eigengap.images.mixture import PatchMixture, fit_mixture
from eigengap.images.noise import learned_noise, limits, unclipped
from eigengap.images.patches import Ints, corners, painted, patches_at, sample_rows
from eigengap.linalg import Array

LEARNED_FROM = 30_000  # patches at most
FAINT = 0.02  # noise, in sd of the image, below which it looks like rounding to seven digits
AGREE = 1e-10  # variance of channels along an axis, relative to the largest, that is rounding
WHOLE = 0.5  # share of the pixels that have all channels, or too much would be lost by merging them
NONE = 1e-6  # noise, likewise, that counts as none


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
        uint8, uint16, float32 or float64. NaN is missing, and is imputed. Single entries that are
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
    if image.is_flat:  # one intensity throughout, estimated from all observed entries
        error = (sigma or 0.0) / np.sqrt(np.sum(~image.missing))
        flat = as_it_is(image, how)
        sd = image.sd_in_units(np.full(image.shape, error / image.unit))
        return replace(flat, sd=sd) if sigma else flat
    step = 1.0 / image.unit if image.given.dtype.kind == "u" else 0.0
    channels = own_channels(image.values, step)
    values = channels.own(image.values)
    if sigma is None:
        noise = learned_noise(values, how.patch, how.rng)
    else:
        noise = relative(sigma, image.unit / channels.more)
    noise_sd = noise / channels.more * image.unit
    if image.missing.any():  # imputed, and the others freed from noise, by the same patches
        found = impute(values, how, max(noise, NONE))
        found = replace(found, values=channels.all(found.values), sd=channels.all_sd(found.sd))
        kind = f"{mixture_of(len(found.gaussians), 'Gaussian')} in noise"
        return imputed(found, image, how, kind, noise_sd)
    if noise < NONE:
        return as_it_is(image, how)
    # Single precision, twice as fast, where it is enough
    digits = values if noise < FAINT else values.astype(np.float32)
    mixture = _learned(digits, how, noise)
    h, w, c = values.shape

    def posterior(y: Ints, x: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
        return mixture.posterior(patches_at(digits, y, x, how.patch))

    at = corners(h, w, how.patch, how.stride)
    mean, sd, tiles = painted((h, w, c), how.patch, at, posterior)
    mean, sd = unclipped(mean, sd, limits(values), noise)
    return Restored(
        image=image.restored(channels.all(mean)),
        sd=image.sd_in_units(np.minimum(channels.all_sd(sd), 1.0)),  # of its mean throughout
        noise_sd=noise_sd,
        model=f"{mixture} on {how.patch} x {how.patch} patches",
        n_mixture=len(mixture.components),
        ranks=mixture.ranks,
        patch=how.patch,
        stride=how.stride,
        tiles=tiles,
    )


def _learned(values: NDArray[Any], how: Settings, noise: float) -> PatchMixture:
    h, w, _ = values.shape
    y, x = corners(h, w, how.patch, 1)
    at = sample_rows(len(y), LEARNED_FROM, how.rng)
    patches = patches_at(values, y[at], x[at], how.patch)
    K = min(how.n_mixture, max(len(patches) // (2 * patches.shape[1]), 1))
    return fit_mixture(patches, noise**2, K, how.rank, how.rng)


# Channels that agree -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Channels:
    """The r axes in which pixels of c channels vary, and where they lie apart from them.

    Channels may be equal: grey stored as red, green and blue, or tinted, or one colour alone.
    Their noise is the same too, and so is no white noise over all entries: in the directions in
    which the channels always agree there is none, and what is learned from those is that there is
    none at all. Such an image is restored in as many channels as it has, coordinates along the axes
    of the c x c covariance of its pixels, and comes back in all of them.
    """

    axes: Array  # (c, r) orthonormal
    offset: Array  # (c,)

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
        return own @ self.axes.T + self.offset

    def all_sd(self, sd: Array) -> Array:
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
