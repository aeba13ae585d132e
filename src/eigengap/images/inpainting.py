"""`inpaint_image`: what is missing of an image, from patches of what is there."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.images.arguments import noise_of, relative, settings
from eigengap.images.filling import fill
from eigengap.images.image import StandardisedImage, standardised
from eigengap.images.impulses import beyond_range, put_back, tamed
from eigengap.images.restored import Restored, mixture_of
from eigengap.images.trials import FEWEST


def inpaint_image(
    image: Any,
    mask: Any = None,
    *,
    patch: int = 6,
    stride: int = 1,
    model: str = "mixture",
    n_mixture: int = 16,
    n_components: int | str = "auto",
    sigma: float = 0.0,
    opacity: bool | None = None,
    random_state: Any = None,
) -> Restored:
    """Fill the missing entries of an image.

    Overlapping patches are modelled by a mixture of Gaussians that is learned from this scaled
    alone, gaps and all, by EM; every patch is conditioned on what it saw of the scaled, and the
    opinions of overlapping patches are averaged by their precisions.

    Parameters
    ----------
    image : array of shape (h, w) or (h, w, c)
        uint8, uint16, float32 or float64. NaN is missing, and so is what a masked array hides.
    mask : array of shape (h, w) or (h, w, c), default=None
        True where a whole pixel, or a single entry, is missing.
    patch : int, default=6
        Side of the patches, at most: less where an image has fewer of them than one has entries.
    stride : int, default=1
        Pixels from one patch to the next. More is faster, and loses a little.
    model : {"mixture", "ppca"}, default="mixture"
        A mixture, or one PPCA for all patches.
    n_mixture : int, default=16
        Components of the mixture, at most: those that find too few patches are dropped.
    n_components : int or "auto", default="auto"
        Rank of the covariance of each component beyond white residuals. "auto" leaves the
        covariances of a mixture free, and lets `choose_rank` find that of one PPCA.
    sigma : float, default=0.0
        Standard deviation of white noise on the seen entries, in the units of the image. 0 leaves
        them as they are; more removes the noise from them too.
    opacity : bool, default=None
        Whether the last channel is opacity, which stays as it is. None: where there are 2 or 4.
    random_state : int, Generator, RandomState or None, default=None
        Draws the patches to learn from, and the first clusters. An int makes the result repeat.

    Returns
    -------
    Restored
        The image, of the shape and type of `image`, and the standard deviation of every entry:
        NaN where fewer than 19 entries were seen and all of them are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap.images import inpaint_image
    >>> y, x = np.mgrid[:32, :32]
    >>> image = 100.0 + 50.0 * np.sin(x / 5.0) + y
    >>> mask = np.random.default_rng(0).random(image.shape) < 0.5
    >>> restored = inpaint_image(image, mask, patch=4, random_state=0)
    >>> error = np.asarray(restored) - image
    >>> bool(np.abs(error[mask]).mean() < 1.0), bool(np.any(error[~mask]))
    (True, False)
    """
    scaled = standardised(image, mask, opacity)
    how = settings(scaled.shape, patch, stride, model, n_mixture, n_components, random_state)
    noise = noise_of(sigma)
    n_missing = int(scaled.missing.sum())
    if n_missing == 0 and noise == 0.0:
        return as_it_is(scaled, how.patch, how.stride)
    calm, impulses = tamed(scaled, beyond_range(scaled.values))
    if calm.is_flat:
        return as_it_is(calm, how.patch, how.stride)
    filled = fill(calm.values, how, relative(noise, calm.unit))
    d = len(filled.gaussians[0].mu)
    K = len(filled.gaussians)
    kind = "PPCA" if model == "ppca" else mixture_of(K, "Gaussian")
    restored = Restored(
        image=calm.restored(filled.values, keep_observed=noise == 0.0),
        sd=calm.spread(filled.sd),
        noise_sd=noise,
        model=f"{kind} on {how.patch} x {how.patch} patches",
        n_mixture=K,
        ranks=(how.rank or d,) * K,
        patch=how.patch,
        stride=how.stride,
        n_missing=n_missing,
        sd_scale=filled.scale,
        tiles=filled.tiles,
    )
    return put_back(restored, scaled.given, impulses)


def as_it_is(image: StandardisedImage, patch: int, stride: int) -> Restored:
    """An image with nothing to restore, or with one intensity throughout.

    If all of n seen entries are equal so is the next with probability (n + 1) / (n + 2) (Laplace's
    rule): 95 % from FEWEST on. Of fewer nothing is known about the others.
    """
    values = np.where(image.missing, 0.0, image.values)
    unknown = np.nan if np.count_nonzero(~image.missing) < FEWEST else 0.0
    return Restored(
        image=image.restored(values, keep_observed=True),
        sd=image.spread(np.where(image.missing, unknown, 0.0)),
        noise_sd=0.0,
        model="one intensity" if image.is_flat else "nothing to restore",
        n_mixture=1,
        ranks=(0,),
        patch=patch,
        stride=stride,
        n_missing=int(image.missing.sum()),
    )
