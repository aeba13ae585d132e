"""What `denoise` and `inpaint` share: an image in, an image out, and maps and comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigengap.cli.errors import WrongUsage, shown
from eigengap.cli.files import (
    DASH,
    as_file,
    check_apart,
    check_not_input,
    check_output,
    require_no_terminal,
    write_whole,
)
from eigengap.cli.narration import Narrator, figure, many
from eigengap.cli.progress import waiting
from eigengap.images.files.comparing import before_and_after, shades
from eigengap.images.files.files import format_of, pixels_for, read_file, write_image

BESIDE = "<beside>"  # --compare without a name


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
        """The same, to be seen wherever nothing was to be seen."""
        if self.opacity is None:
            return self
        opacity = self.opacity.copy()
        opacity[opacity == 0] = 1 if opacity.dtype.kind == "f" else np.iinfo(opacity.dtype).max
        return replace(self, opacity=opacity)

    @property
    def channels(self) -> int:
        return 1 if self.pixels.ndim == 2 else int(self.pixels.shape[2])

    def facts(self) -> dict[str, Any]:
        h, w = self.pixels.shape[:2]
        return {
            "image": self.given, "width": w, "height": h, "channels": self.channels,
            "type": str(self.pixels.dtype),
        }  # fmt: skip

    def in_words(self) -> str:
        h, w = self.pixels.shape[:2]
        depth = {1: "8 bits", 2: "16 bits"}.get(self.pixels.dtype.itemsize, "floats")
        colour = {1: "grey", 3: "colour"}.get(self.channels, f"{self.channels} channels")
        kept = "" if self.opacity is None else ", opacity kept as it is"
        return f"{shown(self.given)}, {w} x {h} pixels, {colour}, {depth}{kept}"

    def missing(self) -> NDArray[np.bool_]:
        """Which samples are NaN."""
        if self.pixels.dtype.kind == "u":
            return np.zeros(self.pixels.shape, dtype=bool)
        return np.asarray(np.isnan(self.pixels))


def opened(
    image: str,
    word: str,
    output: str | None,
    force: bool,
    given: dict[str, Any],
    narrator: Narrator,
) -> tuple[ImageFile, Plan]:
    """The image, read when all that can be refused without it has been, and where results go."""
    plan = Plan.of(image, word, output, force, given, narrator)
    with as_file(image, "IMG") as path:
        loaded = read_image_file(image, path, narrator)
    return loaded, plan.for_image(loaded)


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
    output: str | None  # None until the image is known: beside it
    sd: str | None
    compare: str | None
    force: bool
    mask: str | None = None  # another input

    @classmethod
    def of(
        cls, image: str, word: str, output: str | None, force: bool, given: dict[str, Any],
        narrator: Narrator,
    ) -> Self:  # fmt: skip
        if output == DASH and narrator.as_json:
            raise WrongUsage("--json wants standard output: name a file with -o")
        require_no_terminal(output, "an image")
        compare = given["compare"]
        if compare == BESIDE and output is not None and output != DASH:
            compare = named_after(output, "compared")
        elif compare == BESIDE:
            compare = named_after(image, f"{word}.compared")
        plan = cls(image, word, output, given["sd"], compare, force, given.get("mask"))
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
                    check_not_input(path, read, "what is written", f"{option} FILE")
            check_output(path, self.force, option=f"{option} FILE")
        check_apart(self.output, self.sd, self.compare)

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
        """Write an image, to standard output as PNG or TIFF, and say how many bytes it has."""

        def write(to: str) -> None:
            write_image(to, pixels, force=self.force, opacity=opacity)

        return write_whole(path, suffix_for(pixels, opacity), write)


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
