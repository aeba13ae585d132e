"""`eigengap denoise`: a noisy image in, a clean one out."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options


@click.command("denoise")
@options.image
@options.output(None, "the image (NAME.denoised.png if left out)")
@click.option(
    "--sigma", type=click.FloatRange(0, min_open=True), metavar="SD", show_default="learned",
    help="Standard deviation of the noise, in units of the samples (25 of 255).",
)  # fmt: skip
@options.of_patches
@options.forcing
@options.talking
def command(image: str, output: str | None, force: bool, narrator: Any, **given: Any) -> None:
    """Take the noise out of an image.

    IMG is an image, grey or colour, of 8 or 16 bits or (TIFF) floats, or - for standard input;
    PNG, JPEG, TIFF, BMP, GIF, WebP and PPM are read. How strong the noise is, is learned from the
    image unless --sigma says so. NaN of a TIFF is missing, and is filled in.

    \b
    eigengap denoise photo.png
    eigengap denoise photo.png --sigma 25 -o clean.png --sd sd.png --compare both.png
    """
    from eigengap.cli.images import images
    from eigengap.cli.narration import figure, many
    from eigengap.images import denoise_image

    how = images.how_of(given)
    loaded, plan = images.opened(image, "denoised", output, force, given, narrator)
    missing = loaded.missing()
    gone = f"; {100.0 * missing.mean():.3g} % of its samples are missing" if missing.any() else ""
    narrator.say("Read", loaded.in_words() + gone, missing=int(missing.sum()), **loaded.facts())
    found, seconds = images.restored(narrator, "Denoising", denoise_image, loaded.pixels, **how)
    learned = "learned" if how["sigma"] is None else "given"
    noise = f"noise of standard deviation {figure(found.noise_sd)} ({learned})"
    facts = {"noise_sd": found.noise_sd, "filled": found.n_missing, "seconds": seconds}
    narrator.say("Fit", f"{found.model}; {noise}", model=found.model, **facts)
    if found.n_missing:
        narrator.say("Filled", many(found.n_missing, "sample"))
    plan.write(narrator, loaded, found)
