"""The restored pictures of the documentation: `python -m benchmarks.pictures`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.images import MISSING, held, photographs, psnr

FOLDER = Path(__file__).parents[1] / "docs" / "images"
LINES, LETTERS = 6, 22  # of the text over a picture


def main() -> None:
    from eigengap.images.files.files import write_image

    for name, sheet in {"inpainted-china": _scattered(), "inpainted-text": _text()}.items():
        write_image(FOLDER / f"{name}.png", sheet, force=True)


def _scattered() -> Any:
    """Four fifths of the entries of a photograph, part of which is shown."""
    from eigengap.images import inpaint_image
    from eigengap.images.files.comparing import before_and_after

    picture = photographs()["china"]
    mask = np.random.default_rng(0).random(picture.shape) < MISSING
    restored = inpaint_image(picture, mask, random_state=0)
    _tell("china", restored, picture, mask)
    part = (slice(40, 280), slice(60, 340))
    shown = replace(restored, image=restored.image[part], sd=restored.sd[part])
    damaged = np.where(mask, 0, picture)[part]
    return before_and_after(damaged, shown, original=picture[part])


def _text() -> Any:
    """Text and a hole over a part of another."""
    from PIL import Image, ImageDraw, ImageFont

    from eigengap.images import inpaint_image
    from eigengap.images.files.comparing import before_and_after

    picture = photographs()["chelsea"][60:240, 120:340]
    h, w, _ = picture.shape
    over = Image.new("L", (w, h))
    draw = ImageDraw.Draw(over)
    for k in range(LINES):
        font = ImageFont.load_default(LETTERS)
        draw.text((6, 6 + k * h // LINES), "text over a picture", fill=255, font=font)
    mask = np.asarray(over) > 60
    mask[70:100, 90:125] = True
    restored = inpaint_image(picture, mask, random_state=0)
    every = np.repeat(mask[..., None], 3, axis=2)
    _tell("text and a hole", restored, picture, every)
    return before_and_after(picture, restored, original=picture, mask=mask)


def _tell(name: str, restored: Any, picture: np.ndarray, mask: np.ndarray) -> None:
    print(f"{name}: {psnr(restored, picture):.2f} dB; {held(restored, picture, mask)}")


if __name__ == "__main__":
    main()
