"""`eigengap inpaint`: what is missing of a picture, filled in from the rest of it."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options


@click.command("inpaint")
@options.picture
@click.option(
    "--mask", type=options.FILE, metavar="PICTURE|random:SHARE",
    help="What is missing: all that is not black in a picture of the same size; or hide a share "
    "of the samples at random, to see how well they are found again. NaN of a TIFF is missing too.",
)  # fmt: skip
@options.output(None, "the picture (NAME.inpainted.png if left out)")
@click.option(
    "--sigma", type=click.FloatRange(0), default=0.0, metavar="SD",
    help="Standard deviation of noise in what was seen, to be removed too. [default: 0]",
)  # fmt: skip
@options.of_patches
@options.forcing
@options.talking
def command(image: str, mask: str | None, output: str | None, force: bool, **given: Any) -> None:
    """Fill in what is missing of a picture.

    IMG is PNG, JPEG or TIFF, grey or colour, of 8 or 16 bits or floats, or - for standard input. In
    the mask white, and whatever else is not black, is missing. What was seen stays as it was.

    \b
    eigengap inpaint photo.png --mask scratches.png
    eigengap inpaint photo.png --mask random:0.8 --compare
    """
    import time

    from eigengap.cli import masks, pictures
    from eigengap.cli.files import as_file, require_one_stdin
    from eigengap.cli.narration import Narrator, many
    from eigengap.cli.progress import waiting
    from eigengap.images import inpaint_image

    require_one_stdin(image, mask or "")
    if mask is not None and masks.hides(mask):
        masks.share_of(mask)
    how = pictures.how_of(given)
    plan = pictures.Plan.of(image, "inpainted", output, force, given)
    narrator = Narrator(given["quiet"], given["as_json"], given["verbose"])
    with as_file(image, "IMG") as path:
        picture = pictures.read_picture(image, path)
    plan = plan.for_picture(picture)
    missing = masks.missing_of(mask, picture, given["seed"])
    gone = "are hidden at random" if masks.hides(mask) else "are missing"
    share = f"{100.0 * missing.mean():.2g} %"
    narrator.say(
        "Read",
        f"{picture.in_words()}; {share} of its samples {gone}",
        missing=int(missing.sum()),
        **picture.facts(),
    )
    began = time.perf_counter()
    with narrator.hearing(), waiting(narrator, "Filling in"):
        found = inpaint_image(picture.pixels, missing, sigma=given["sigma"], opacity=False, **how)
    narrator.say("Fit", found.model, model=found.model, seconds=time.perf_counter() - began)
    quality = masks.quality(mask, picture, found.image, missing, narrator)
    narrator.say("Filled", many(found.n_missing, "sample") + quality, filled=found.n_missing)
    known = {"mask": missing} | ({"original": picture.pixels} if masks.hides(mask) else {})
    plan.write(narrator, picture, found, **known)
    narrator.finish()
