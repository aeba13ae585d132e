"""`eigengap inpaint`: what is missing of an image, inpainted from the rest of it."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options


@click.command("inpaint")
@options.image
@click.option(
    "--mask", type=options.FILE, metavar="IMAGE|transparent|random:SHARE",
    help="What is missing: all that is not black in an image of the same size (of a JPEG, all "
    "that is brighter than half); transparent, the pixels of IMG that cannot be seen; or hide a "
    "share of the samples at random, 0.8 for instance, to see how well they are found again.",
)  # fmt: skip
@options.output(None, "the image (NAME.inpainted.png if left out)")
@click.option(
    "--sigma", type=click.FloatRange(0), default=0, show_default=True, metavar="SD",
    help="Standard deviation of noise in what was seen, to be removed too.",
)  # fmt: skip
@options.of_patches
@options.forcing
@options.talking
def command(image: str, output: str | None, force: bool, narrator: Any, **given: Any) -> None:
    """Fill in what is missing of an image.

    IMG is an image, grey or colour, of 8 or 16 bits or (TIFF) floats, or - for standard input;
    PNG, JPEG, TIFF, BMP, GIF, WebP and PPM are read. What is missing, the mask says, or NaN of a
    TIFF. What was seen stays as it was.

    \b
    eigengap inpaint photo.png --mask scratches.png
    eigengap inpaint photo.png --mask random:0.8 --compare
    """
    from eigengap.cli.files import require_one_stdin
    from eigengap.cli.images import images, masks
    from eigengap.cli.narration import many
    from eigengap.images import inpaint_image

    mask = given["mask"]
    require_one_stdin(image, mask or "")
    masks.require_sense(mask)
    how = images.how_of(given)
    loaded, plan = images.opened(image, "inpainted", output, force, given, narrator)
    missing = masks.missing_of(mask, loaded, given["seed"], narrator)
    gone = "are hidden at random" if masks.hides(mask) else "are missing"
    message = f"{loaded.in_words()}; {100.0 * missing.mean():.3g} % of its samples {gone}"
    narrator.say("Read", message, missing=int(missing.sum()), **loaded.facts())
    found, seconds = images.restored(
        narrator, "Inpainting", inpaint_image, loaded.pixels, missing, **how
    )
    narrator.say("Fit", found.model, model=found.model, seconds=seconds)
    quality = masks.quality(mask, loaded, found.image, missing, narrator)
    narrator.say("Filled", many(found.n_missing, "sample") + quality, filled=found.n_missing)
    known = {"mask": missing} | ({"original": loaded.pixels} if masks.hides(mask) else {})
    if masks.is_transparent(mask):
        loaded = loaded.made_opaque()
    plan.write(narrator, loaded, found, **known)
