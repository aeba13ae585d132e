"""`eigengap denoise` and `eigengap inpaint`: a clean and whole image of a noisy or damaged one."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options
from eigengap.cli.files import require_one_stdin
from eigengap.cli.narration import figure, many


@click.command()
@options.image
@options.output(None, "the image (NAME.denoised.png if left out)")
@click.option(
    "--sigma", type=click.FloatRange(0, min_open=True), metavar="SD", show_default="learned",
    help="Standard deviation of the noise, in units of the samples (25 of 255).",
)  # fmt: skip
@options.of_patches
@options.forcing
@options.talking
def denoise(narrator: Any, **given: Any) -> None:
    """Take the noise out of an image.

    IMG is an image, grey or colour, of 8 or 16 bits or (TIFF) floats, or - for standard input;
    PNG, JPEG, TIFF, BMP, GIF, WebP and PPM are read. The standard deviation of the noise is
    estimated from the image unless --sigma gives it. NaN of a TIFF is missing, and is imputed.

    \b
    eigengap denoise photo.png
    eigengap denoise photo.png --sigma 25 -o clean.png --sd sd.png --compare both.png
    """
    from eigengap.cli import images
    from eigengap.images import denoise_image

    how = images.how_of(given)
    loaded, plan = images.opened("denoised", given, narrator)
    loaded.report(narrator, loaded.missing())
    found, seconds = images.restored(narrator, "Denoising", denoise_image, loaded.pixels, **how)
    learned = "learned" if how["sigma"] is None else "given"
    noise = f"noise of standard deviation {figure(found.noise_sd)} ({learned})"
    facts = {"noise_sd": found.noise_sd, "filled": found.n_missing, "seconds": seconds}
    narrator.say("Fit", f"{found.model}; {noise}", model=found.model, **facts)
    if found.n_missing:
        narrator.say("Imputed", many(found.n_missing, "sample"))
    plan.write(narrator, loaded, found)


@click.command()
@options.image
@click.option(
    "--mask", type=options.FILE, metavar="IMAGE|transparent|random:SHARE",
    help="What is missing: all that is not black in an image of the same size (of a JPEG, all "
    "that is brighter than half); transparent, the fully transparent pixels of IMG; or hide a "
    "share of the samples at random, 0.8 for instance, to see how well they are found again.",
)  # fmt: skip
@options.output(None, "the image (NAME.inpainted.png if left out)")
@click.option(
    "--sigma", type=click.FloatRange(0), default=0, show_default=True, metavar="SD",
    help="Standard deviation of noise in the observed pixels, to be removed too.",
)  # fmt: skip
@options.of_patches
@options.forcing
@options.talking
def inpaint(narrator: Any, **given: Any) -> None:
    """Impute the missing pixels of an image.

    IMG is an image, grey or colour, of 8 or 16 bits or (TIFF) floats, or - for standard input;
    PNG, JPEG, TIFF, BMP, GIF, WebP and PPM are read. Pixels are missing where the mask marks
    them, or NaN in a TIFF. Observed pixels stay as they are.

    \b
    eigengap inpaint photo.png --mask scratches.png
    eigengap inpaint photo.png --mask random:0.8 --compare
    """
    from eigengap.cli import images
    from eigengap.images import inpaint_image

    mask = given["mask"]
    require_one_stdin(given["image"], mask or "")
    images.require_sense(mask)
    how = images.how_of(given)
    loaded, plan = images.opened("inpainted", given, narrator)
    missing = images.missing_of(mask, loaded, given["seed"], narrator)
    state = "are hidden at random" if images.hides(mask) else "are missing"
    loaded.report(narrator, missing, state)
    found, seconds = images.restored(
        narrator, "Inpainting", inpaint_image, loaded.pixels, missing, **how
    )
    narrator.say("Fit", found.model, model=found.model, seconds=seconds)
    quality = images.quality(mask, loaded, found, missing, narrator)
    narrator.say("Imputed", many(found.n_missing, "sample") + quality, filled=found.n_missing)
    known = {"mask": missing} | ({"original": loaded.pixels} if images.hides(mask) else {})
    if images.is_transparent(mask):
        loaded = loaded.made_opaque()
    plan.write(narrator, loaded, found, **known)
