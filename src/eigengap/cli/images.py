"""What `denoise` and `inpaint` share: an image in, an image out, and maps and comparisons.

Samples are missing by a mask, at random, or where they are NaN.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigengap.cli import files
from eigengap.cli.errors import Unfittable, WrongUsage, shown
from eigengap.cli.files import DASH
from eigengap.cli.narration import Narrator, figure, many
from eigengap.cli.progress import waiting
from eigengap.images.files.comparing import before_and_after, shades
from eigengap.images.files.files import format_of, pixels_for, read_file, write_image

UNNAMED = "<unnamed>"  # --compare without a name
RANDOM = "random:"
TRANSPARENT = "transparent"
INVERTED = (
    "In a mask what is not black is missing and what is black is observed: is it the other way "
    "round?"
)
MUCH = 0.6  # of an image, that a mask may hide before one asks whether it is inverted


@dataclass(frozen=True, eq=False)
class ImageFile:
    """The samples of an image; opacity is kept apart and comes back as it was."""

    given: str
    pixels: NDArray[Any]  # (h, w) or (h, w, c), c of colour
    opacity: NDArray[Any] | None  # (h, w)

    @property
    def top(self) -> float:
        """The largest sample that there can be: of floats, the largest that there is."""
        if self.pixels.dtype.kind == "u":
            return float(np.iinfo(self.pixels.dtype).max)
        return float(np.nanmax(self.pixels, initial=1.0))

    def whole(self, pixels: NDArray[Any]) -> NDArray[Any]:
        if self.opacity is None:
            return pixels
        return np.dstack([pixels, self.opacity])

    def made_opaque(self) -> ImageFile:
        """The same, opaque wherever it was transparent."""
        if self.opacity is None:
            return self
        opacity = self.opacity.copy()
        opacity[opacity == 0] = 1 if opacity.dtype.kind == "f" else np.iinfo(opacity.dtype).max
        return replace(self, opacity=opacity)

    def missing(self) -> NDArray[np.bool_]:
        """Which samples are NaN."""
        return np.asarray(np.isnan(self.pixels))

    def report(self, narrator: Narrator, missing: NDArray[Any], state: str = "are missing") -> None:
        """Report what was read; `state` describes the samples that are missing."""
        h, w = self.pixels.shape[:2]
        channels = 1 if self.pixels.ndim == 2 else int(self.pixels.shape[2])
        depth = {1: "8 bits", 2: "16 bits"}.get(self.pixels.dtype.itemsize, "floats")
        colour = {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")
        message = f"{shown(self.given)}, {w} x {h} pixels, {colour}, {depth}"
        if self.opacity is not None:
            message += ", opacity kept as it is"
        if missing.any():
            message += f"; {100.0 * missing.mean():.3g} % of its samples {state}"
        facts = {"image": self.given, "width": w, "height": h, "channels": channels}
        kind = str(self.pixels.dtype)
        narrator.say("Read", message, missing=int(missing.sum()), **facts, type=kind)


def opened(word: str, given: dict[str, Any], narrator: Narrator) -> tuple[ImageFile, Plan]:
    """The image, read when all that can be refused without it has been, and where results go."""
    plan = Plan.of(word, given, narrator)
    with files.as_file(given["image"], "IMG") as path:
        image = read_image_file(given["image"], path, narrator)
    return image, plan.for_image(image)


def restored(
    narrator: Narrator, label: str, restore: Callable[..., Any], *arrays: Any, **how: Any
) -> tuple[Any, float]:
    """What the library makes of the arrays, and the seconds that it took."""
    began = time.perf_counter()
    with narrator.hearing(), waiting(narrator, label):
        found = restore(*arrays, opacity=False, **how)
    return found, time.perf_counter() - began


def read_image_file(given: str, path: str, narrator: Narrator) -> ImageFile:
    with narrator.hearing():
        found = read_file(path)
    pixels, opacity = found.pixels, None
    if found.has_opacity:
        opacity, pixels = pixels[..., -1], pixels[..., :-1]
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    return ImageFile(given, np.ascontiguousarray(pixels), opacity)


def how_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a model of patches, as `denoise_image` and `inpaint_image` take them."""
    sigma = given["sigma"]
    if sigma is not None and not isfinite(sigma):
        raise WrongUsage(
            f"--sigma {sigma}: it is a standard deviation in units of the samples (25)"
        )
    k = given["components"]
    if k != "auto" and not (k.isascii() and k.isdecimal() and int(k) >= 1):
        raise WrongUsage(f"-k {k}: it is a whole number of components from 1 on (20), or auto")
    return {
        "model": given["name"],
        "n_components": k if k == "auto" else int(k),
        "sigma": sigma,
        "random_state": given["seed"],
    }


@dataclass(frozen=True)
class Plan:
    """What is to be written where; refused before the work where it cannot be."""

    image: str
    word: str  # what is done to it
    output: str | None  # None until the image is known: next to it
    sd: str | None
    compare: str | None
    force: bool
    mask: str | None = None  # another input

    @classmethod
    def of(cls, word: str, given: dict[str, Any], narrator: Narrator) -> Self:
        image, output, compare = (given[name] for name in ("image", "output", "compare"))
        if output == DASH and narrator.as_json:
            raise WrongUsage("--json wants standard output: name a file with -o")
        files.require_no_terminal(output, "an image")
        if compare == UNNAMED and output not in (None, DASH):
            compare = named_after(output, "compared")
        elif compare == UNNAMED:
            compare = named_after(image, f"{word}.compared")
        plan = cls(image, word, output, given["sd"], compare, given["force"], given.get("mask"))
        plan._require_names()
        return plan

    def for_image(self, image: ImageFile) -> Self:
        """With a name for what is written; refuses a format that cannot hold it."""
        plan, whole = self, image.whole(image.pixels)
        has_opacity = image.opacity is not None
        if self.output is None:
            suffix = suffix_for(whole, has_opacity)
            plan = replace(self, output=named_after(self.image, self.word, suffix))
            plan._require_names()
        shade = np.zeros_like(image.pixels[:1, :1], dtype=np.uint8)
        for option, path, pixels, opacity in (
            ("-o", plan.output, whole[:1, :1], has_opacity),
            ("--sd", plan.sd, shade, False),
        ):
            if path is None or path == DASH:
                continue
            try:
                pixels_for(pixels, format_of(path), path, opacity)
            except ValueError as error:
                said = str(error).removeprefix(f"{path}: ")
                raise WrongUsage(f"{option} {shown(path)}: {said}") from None
        return plan

    def _require_names(self) -> None:
        for option, path in (("-o", self.output), ("--sd", self.sd), ("--compare", self.compare)):
            if path is None:
                continue
            if path == DASH and option != "-o":
                raise WrongUsage(f"{option} -: only the image itself goes to standard output")
            if path != DASH:
                try:
                    format_of(path)
                except ValueError as error:
                    raise WrongUsage(f"{option} {error}") from None
            for read in (self.image, self.mask):
                if read is not None:
                    files.check_not_input(path, read, "what is written", f"{option} FILE")
            files.check_output(path, self.force, option=f"{option} FILE")
        files.check_apart(self.output, self.sd, self.compare)

    def write(self, narrator: Narrator, image: ImageFile, found: Any, **known: Any) -> None:
        """All that was asked for; `known` is the mask and the original, for the comparison."""
        assert self.output is not None
        count = self._written(self.output, image.whole(found.image), image.opacity is not None)
        narrator.wrote(self.output, count, wrote=self.output, bytes=count)
        if self.sd is not None:
            self._write_sd(self.sd, found.sd, narrator)
        if self.compare is not None:  # in eight bits
            count = self._written(self.compare, before_and_after(image.pixels, found, **known))
            first = "original, damaged" if "original" in known else "as it was"
            after = f": {first}, restored, standard deviation"
            narrator.wrote(self.compare, count, after=after, compared=self.compare)

    def _write_sd(self, path: str, sd: NDArray[Any], narrator: Narrator) -> None:
        """Standard deviations of the samples: in TIFF as they are, elsewhere as shades of grey."""
        unknown = int(np.isnan(sd).sum())
        # Of what was observed it is 0; where all else is not known there is no largest.
        largest = float(np.nanmax(sd)) if not unknown or np.nanmax(sd) > 0 else None
        message = ": standard deviations"
        if format_of(path) == "TIFF":
            count, missing = self._written(path, sd), "NaN"
            if largest is not None:
                message += f", {figure(float(np.nanmin(sd)))} to {figure(largest)}"
        else:
            grey, white = shades(sd)
            count, missing = self._written(path, grey), "white"
            message += ", black is 0" + ("" if largest is None else f" and white {figure(white)}")
        if unknown:
            message += f"; not known of {many(unknown, 'sample')} ({missing})"
        narrator.facts.update(largest_sd=largest, unknown_sd=unknown)
        narrator.wrote(path, count, after=message, sd=path)

    def _written(self, path: str, pixels: NDArray[Any], opacity: bool = False) -> int:
        """Write an image, to standard output as PNG or TIFF, and return its size in bytes."""

        def write(to: str) -> None:
            write_image(to, pixels, force=self.force, opacity=opacity)

        return files.write_whole(path, suffix_for(pixels, opacity), write)


def named_after(given: str, word: str, suffix: str = ".png") -> str:
    """
    >>> named_after("images/photo.jpg", "denoised")
    'images/photo.denoised.png'
    """
    if given == DASH:
        return word + suffix
    return str(Path(given).with_name(f"{Path(given).stem}.{word}{suffix}"))


def suffix_for(pixels: NDArray[Any], opacity: bool) -> str:
    """PNG has no place for floats, nor for channels beyond colour and opacity."""
    is_wide = pixels.ndim == 3 and pixels.shape[2] - opacity not in (1, 3)
    return ".tif" if is_wide or pixels.dtype.kind == "f" else ".png"


# Masks -------------------------------------------------------------------------------------


def hides(mask: str | None) -> bool:
    """Whether what the mask takes away is known: random:SHARE damages the image itself."""
    return mask is not None and mask.lower().startswith(RANDOM)


def is_transparent(mask: str | None) -> bool:
    """Whether the image's own opacity is the mask."""
    return mask == TRANSPARENT and not os.path.exists(TRANSPARENT)


def require_sense(mask: str | None) -> None:
    """Refuse what can be refused before anything is read."""
    if mask == RANDOM.rstrip(":") and not os.path.exists(mask):
        raise WrongUsage("--mask random: give the share of the samples to hide, e.g. random:0.8")
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
    missing = image.missing()
    clear = np.zeros(missing.shape[:2], bool) if image.opacity is None else image.opacity == 0
    if mask is None and not missing.any():
        count = int(np.count_nonzero(clear))
        own = f"--mask transparent for its {many(count, 'transparent pixel')}, " if count else ""
        raise WrongUsage(
            f"nothing of {shown(image.given)} is missing. Say what is: {own}--mask IMAGE, in which "
            "what is not black is missing, or --mask random:0.8 to try it. To remove noise: "
            "eigengap denoise"
        )
    if is_transparent(mask):
        if not clear.any():
            raise WrongUsage(
                f"--mask transparent: nothing of {shown(image.given)} is transparent. Erase what "
                "is to be imputed, or paint it white in a black image and give that"
            )
        missing = missing | _of_pixels(clear, image)
    elif mask is not None and hides(mask):
        missing = missing | (np.random.default_rng(seed).random(missing.shape) < _share_of(mask))
    elif mask is not None:
        missing = missing | _of_image(mask, image, narrator)
    if missing.all():
        is_drawn = mask is not None and not hides(mask) and not is_transparent(mask)
        raise Unfittable(
            f"all of {shown(image.given)} is missing" + (f". {INVERTED}" if is_drawn else "")
        )
    return missing


def _of_pixels(marked: NDArray[Any], image: ImageFile) -> NDArray[Any]:
    """Whole pixels (h, w) as samples of the image."""
    if image.pixels.ndim == 2:
        return marked
    return np.repeat(marked[..., None], image.pixels.shape[2], axis=2)


def quality(
    mask: str | None, image: ImageFile, found: Any, missing: NDArray[Any], narrator: Narrator
) -> str:
    """How near the truth, where it is known: the ratio of peak to noise, in decibels."""
    if not hides(mask):
        return ""
    known = ~image.missing()
    error = np.where(known, found.image.astype(np.float64) - image.pixels, 0.0)
    over_all = _decibels(error[known], image.top)
    over_missing = _decibels(error[known & missing], image.top)
    narrator.facts.update(psnr=over_all, psnr_of_hidden=over_missing)
    return f"; PSNR {over_all:.2f} dB, of the hidden samples alone {over_missing:.2f} dB"


def _decibels(error: NDArray[Any], top: float) -> float:
    mean = float(np.mean((error / top) ** 2)) if error.size else 0.0
    return float("inf") if mean == 0.0 else float(-10.0 * np.log10(mean))


def _of_image(mask: str, image: ImageFile, narrator: Narrator) -> NDArray[Any]:
    with files.as_file(mask, "--mask") as path:
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
    if found.opacity is not None:  # transparent pixels mark nothing
        marked = marked & (found.opacity > 0)
    if not marked.any():
        opaque, drawn = "", ""
        if found.opacity is not None:
            opaque, drawn = " where it is opaque", "; opacity alone marks nothing"
        raise WrongUsage(
            f"the mask {shown(mask)} is {'darker than half' if lossy else 'black'} all over{opaque}"
            ", so that nothing is missing: paint white what is missing, and black what is "
            f"observed{drawn}"
        )
    if marked.mean() > MUCH:
        narrator.note(
            f"the mask {shown(mask)} leaves {100.0 - 100.0 * marked.mean():.3g} % of the image. "
            + INVERTED
        )
    return _of_pixels(marked, image)


def _lossy(path: str) -> str:
    """What the file is called, if its kind does not keep samples as they were; else ""."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if head[:3] == b"\xff\xd8\xff":
        return "JPEG"
    is_webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return "lossy WebP" if is_webp and b"VP8L" not in head else ""
