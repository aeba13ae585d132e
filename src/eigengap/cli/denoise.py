"""`eigengap denoise`: a noisy picture in, a clean one out."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options


@click.command("denoise")
@options.picture
@options.output(None, "the picture (NAME.denoised.png if left out)")
@click.option(
    "--sigma", type=click.FloatRange(0, min_open=True), metavar="SD",
    help="Standard deviation of the noise, in units of the samples (25 of 255). [default: learned]",
)  # fmt: skip
@options.of_patches
@options.forcing
@options.talking
def command(image: str, output: str | None, force: bool, **given: Any) -> None:
    """Take the noise out of a picture.

    IMG is PNG, JPEG or TIFF, grey or colour, of 8 or 16 bits or floats, or - for standard input.
    How strong the noise is, is learned from the picture unless --sigma says so.

    \b
    eigengap denoise photo.png
    eigengap denoise photo.png --sigma 25 -o clean.png --sd sd.png --compare both.png
    """
    import time

    from eigengap.cli import pictures
    from eigengap.cli.files import as_file
    from eigengap.cli.narration import Narrator, figure
    from eigengap.cli.progress import waiting
    from eigengap.images import denoise_image

    how = pictures.how_of(given)
    plan = pictures.Plan.of(image, "denoised", output, force, given)
    narrator = Narrator(given["quiet"], given["as_json"], given["verbose"])
    with as_file(image, "IMG") as path:
        picture = pictures.read_picture(image, path)
    plan = plan.for_picture(picture)
    narrator.say("Read", picture.in_words(), **picture.facts())
    began = time.perf_counter()
    with narrator.hearing(), waiting(narrator, "Denoising"):
        found = denoise_image(picture.pixels, sigma=given["sigma"], opacity=False, **how)
    learned = "learned" if given["sigma"] is None else "given"
    narrator.say(
        "Fit",
        f"{found.model}; noise of standard deviation {figure(found.noise_sd)} ({learned})",
        model=found.model,
        noise_sd=found.noise_sd,
        filled=found.n_missing,
        seconds=time.perf_counter() - began,
    )
    plan.write(narrator, picture, found)
    narrator.finish()
