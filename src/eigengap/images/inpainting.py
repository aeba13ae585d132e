"""`inpaint_image`: what is missing of an image, from patches of what is there."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.images.arguments import Settings, noise_of, relative, settings
from eigengap.images.image import Restored, StandardisedImage, mixture_of, standardised
from eigengap.images.impulses import beyond_range, put_back, tamed
from eigengap.images.imputation import FEWEST, Imputed, impute


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
    """Impute the missing entries of an image.

    Overlapping patches are modelled by a mixture of Gaussians that is learned from this image
    alone, incomplete as it is, by EM; every patch is conditioned on what was observed of it, and
    the opinions of overlapping patches are averaged by their precisions.

    Parameters
    ----------
    image : array of shape (h, w) or (h, w, c)
        uint8, uint16, float32 or float64. NaN is missing, and so is what a masked array hides.
    mask : array of shape (h, w) or (h, w, c), default=None
        True where a whole pixel, or a single entry, is missing.
    patch : int, default=6
        Side of the patches, at most: less where an image has fewer of them than one has entries.
    stride, model, opacity, random_state
        As in `denoise_image`.
    n_mixture : int, default=16
        Components of the mixture, at most: those that find too few patches are dropped.
    n_components : int or "auto", default="auto"
        Rank of the covariance of each component beyond white residuals. "auto" leaves the
        covariances of a mixture free, and lets `choose_rank` find that of one PPCA.
    sigma : float, default=0.0
        Standard deviation of white noise on the observed entries, in the units of the image. 0
        leaves them as they are; more removes the noise from them too.

    Returns
    -------
    Restored
        The image, of the shape and type of `image`, and the standard deviation of every entry:
        NaN where fewer than 19 entries were observed and all of them are equal.

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
    if noise == 0.0 and not scaled.missing.any():
        return as_it_is(scaled, how)
    calm, impulses = tamed(scaled, beyond_range(scaled.values))
    if calm.is_flat:
        return as_it_is(calm, how)
    found = impute(calm.values, how, relative(noise, calm.unit))
    kind = "PPCA" if model == "ppca" else mixture_of(len(found.gaussians), "Gaussian")
    restored = imputed(found, calm, how, kind, noise, keep_observed=noise == 0.0)
    return put_back(restored, scaled.given, impulses)


def imputed(
    found: Imputed,
    image: StandardisedImage,
    how: Settings,
    kind: str,
    noise: float,
    keep_observed: bool = False,
) -> Restored:
    """The image with its missing entries imputed, by what kind of model."""
    K, d = len(found.gaussians), len(found.gaussians[0].mu)
    return Restored(
        image=image.restored(found.values, keep_observed=keep_observed),
        sd=image.sd_in_units(found.sd),
        noise_sd=noise,
        model=f"{kind} on {how.patch} x {how.patch} patches",
        n_mixture=K,
        ranks=(how.rank or d,) * K,
        patch=how.patch,
        stride=how.stride,
        n_missing=int(image.missing.sum()),
        sd_scale=found.scale,
        tiles=found.tiles,
    )


def as_it_is(image: StandardisedImage, how: Settings) -> Restored:
    """An image with nothing to restore, or with one intensity throughout.

    If all of n observed entries are equal so is the next with probability (n + 1) / (n + 2)
    (Laplace's rule): 95 % from FEWEST on. Of fewer nothing is known about the others.
    """
    values = np.where(image.missing, 0.0, image.values)
    unknown = np.nan if np.count_nonzero(~image.missing) < FEWEST else 0.0
    return Restored(
        image=image.restored(values, keep_observed=True),
        sd=image.sd_in_units(np.where(image.missing, unknown, 0.0)),
        noise_sd=0.0,
        model="one intensity" if image.is_flat else "nothing to restore",
        n_mixture=1,
        ranks=(0,),
        patch=how.patch,
        stride=how.stride,
        n_missing=int(image.missing.sum()),
    )
