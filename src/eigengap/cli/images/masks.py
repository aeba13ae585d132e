"""Which samples of an image are missing: an image says so, chance does, or NaN."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.cli.errors import Unfittable, WrongUsage, shown
from eigengap.cli.files import as_file
from eigengap.cli.images.images import ImageFile, read_image_file
from eigengap.cli.narration import Narrator, many

RANDOM = "random:"
TRANSPARENT = "transparent"
INVERTED = (
    "In a mask what is not black is missing and what is black is observed: is it the other way "
    "round?"
)
MUCH = 0.6  # of an image, that a mask may hide before one asks whether it is inverted


def hides(mask: str | None) -> bool:
    """Whether what the mask takes away is known: random:SHARE damages the image itself."""
    return mask is not None and mask.lower().startswith(RANDOM)


def is_transparent(mask: str | None) -> bool:
    """Whether the image's own opacity says what is missing."""
    return mask == TRANSPARENT and not os.path.exists(TRANSPARENT)


def require_sense(mask: str | None) -> None:
    """Refuse what can be refused before anything is read."""
    if mask == RANDOM.rstrip(":") and not os.path.exists(mask):
        raise WrongUsage("--mask random: say what share of the samples to hide, e.g. random:0.8")
    if mask is not None and hides(mask):
        _share_of(mask)


def _share_of(mask: str) -> float:
    """SHARE of random:SHARE."""
    text = mask[len(RANDOM) :]
    try:
        share = float(text.rstrip("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 < share < 1.0:
        raise WrongUsage(
            f"--mask {mask}: the share of samples to hide lies between 0 and 1, e.g. random:0.8"
        )
    return share


def missing_of(mask: str | None, image: ImageFile, seed: int, narrator: Narrator) -> NDArray[Any]:
    """Which samples are missing, of the shape of the image's pixels."""
    pixels = image.pixels
    gone = image.missing()
    if mask is None:
        if not gone.any():
            raise WrongUsage(_nothing_missing(image))
    elif is_transparent(mask):
        gone = gone | _of_opacity(image)
    elif hides(mask):
        gone = gone | (np.random.default_rng(seed).random(pixels.shape) < _share_of(mask))
    else:
        gone = gone | _of_image(mask, image, narrator)
    if gone.all():
        is_drawn = mask is not None and not hides(mask) and not is_transparent(mask)
        raise Unfittable(
            f"all of {shown(image.given)} is missing" + (f". {INVERTED}" if is_drawn else "")
        )
    return gone


def _nothing_missing(image: ImageFile) -> str:
    clear = 0 if image.opacity is None else int(np.count_nonzero(image.opacity == 0))
    own = f"--mask transparent for its {many(clear, 'transparent pixel')}, " if clear else ""
    return (
        f"nothing of {shown(image.given)} is missing. Say what is: {own}--mask IMAGE, in which "
        "what is not black is missing, or --mask random:0.8 to try it. To remove noise: eigengap "
        "denoise"
    )


def _of_opacity(image: ImageFile) -> NDArray[Any]:
    clear = None if image.opacity is None else image.opacity == 0
    if clear is None or not clear.any():
        raise WrongUsage(
            f"--mask transparent: nothing of {shown(image.given)} is transparent. Erase what is "
            "to be filled, or paint it white in a black image and give that"
        )
    return _of_pixels(clear, image)


def _of_pixels(marked: NDArray[Any], image: ImageFile) -> NDArray[Any]:
    """Whole pixels (h, w) as samples of the image."""
    if image.pixels.ndim == 2:
        return marked
    return np.repeat(marked[..., None], image.pixels.shape[2], axis=2)


def quality(
    mask: str | None,
    image: ImageFile,
    filled: NDArray[Any],
    missing: NDArray[Any],
    narrator: Narrator,
) -> str:
    """How near the truth, where it is known: the ratio of peak to noise, in decibels."""
    if not hides(mask):
        return ""
    known = ~image.missing()
    error = np.where(known, filled.astype(np.float64) - image.pixels, 0.0)
    over_all = _decibels(error[known], image.top)
    over_missing = _decibels(error[known & missing], image.top)
    narrator.facts.update(psnr=over_all, psnr_of_hidden=over_missing)
    return f"; PSNR {over_all:.2f} dB, of what was hidden alone {over_missing:.2f} dB"


def _decibels(error: NDArray[Any], top: float) -> float:
    mean = float(np.mean((error / top) ** 2)) if error.size else 0.0
    return float("inf") if mean == 0.0 else float(-10.0 * np.log10(mean))


def _of_image(mask: str, image: ImageFile, narrator: Narrator) -> NDArray[Any]:
    with as_file(mask, "--mask") as path:
        found = read_image_file(mask, path, narrator)
        lossy = _lossy(path)
    if found.pixels.shape[:2] != image.pixels.shape[:2]:
        (h, w), (height, width) = found.pixels.shape[:2], image.pixels.shape[:2]
        raise Unfittable(
            f"the mask {shown(mask)} is {w} x {h} pixels, and {shown(image.given)} is {width} x "
            f"{height}; they must be of the same size"
        )
    # NaN is missing here as everywhere.
    marked = np.asarray(found.pixels > (found.top / 2 if lossy else 0)) | found.missing()
    if lossy:
        narrator.note(
            f"the mask {shown(mask)} is a {lossy}, which does not keep black black: what is "
            "brighter than half is taken to be missing, and edges may be left out. PNG keeps a "
            "mask as it is"
        )
    if marked.ndim == 3:
        marked = np.asarray(marked.any(axis=2))
    if found.opacity is not None:  # what is seen through is not painted over
        marked = marked & (found.opacity > 0)
    if not marked.any():
        raise WrongUsage(_nothing_marked(mask, found, bool(lossy)))
    if marked.mean() > MUCH:
        narrator.note(
            f"the mask {shown(mask)} leaves {100.0 - 100.0 * marked.mean():.3g} % of the image. "
            + INVERTED
        )
    return _of_pixels(marked, image)


def _nothing_marked(mask: str, found: ImageFile, lossy: bool) -> str:
    opaque = "" if found.opacity is None else " where it is opaque"
    dark = "darker than half" if lossy else "black"
    drawn = "" if found.opacity is None else "; opacity alone marks nothing"
    return (
        f"the mask {shown(mask)} is {dark} all over{opaque}, so that nothing is missing: paint "
        f"white what is missing, and black what is seen{drawn}"
    )


def _lossy(path: str) -> str:
    """What the file is called, if its kind does not keep samples as they were; else ""."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if head[:3] == b"\xff\xd8\xff":
        return "JPEG"
    is_webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return "lossy WebP" if is_webp and b"VP8L" not in head else ""
