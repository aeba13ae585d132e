"""Before and after in one image: panels side by side, each with its name below.

Intensities of a panel are shown as they are where they are bytes, and otherwise by the range of the
image that the panels belong to; standard deviations from black (none) to white (the largest).
Pixels of a tiny image are shown as squares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import MissingExtraError
from eigengap.images.image import Restored

Bytes = NDArray[np.uint8]  # (h, w, 3)

TINY, WIDE, HIGH = 64, 120, 1200  # pixels: what is enlarged, to how much, and no higher
GAP = 8  # pixels between panels
LEADING = 3  # and between lines of a caption
PAPER, INK = 255, 40
MISSING = (255, 0, 200)  # a colour that images hardly have


def before_and_after(
    damaged: Any, restored: Restored, *, original: Any = None, mask: Any = None
) -> Bytes:
    """Original (if known), damaged, restored and standard deviation, side by side.

    Parameters
    ----------
    damaged : array
        What was restored. Entries that are missing are shown black, whole pixels in magenta unless
        they are most of it.
    restored : Restored
        The outcome.
    original : array, default=None
        The image before it was damaged. Without it what was restored is shown "as it was".
    mask : array of shape (h, w) or (h, w, c), default=None
        True where an entry was missing.

    Returns
    -------
    uint8 array of shape (H, W, 3)
    """
    damaged = np.asarray(damaged)
    low, high = _range(np.asarray(restored))
    with_missing, missing = _with_missing(damaged, mask, low, high)
    panels = [] if original is None else [("original", _shown(np.asarray(original), low, high))]
    sd, largest = shades(restored.sd)
    unit = "" if restored.dtype.kind == "f" else " levels"
    white = f"white = {_figure(largest)}{unit}" if np.nanmax(restored.sd) > 0 else "white: unknown"
    panels += [
        (("as it was" if original is None else "damaged") + missing, with_missing),
        ("restored", _shown(np.asarray(restored), low, high)),
        (f"standard deviation, {white}", sd),
    ]
    times = _enlargement(*damaged.shape[:2])
    return side_by_side(
        [(name, one.repeat(times, axis=0).repeat(times, axis=1)) for name, one in panels]
    )


def _enlargement(h: int, w: int) -> int:
    """
    >>> _enlargement(8, 8), _enlargement(50, 64), _enlargement(900, 8)
    (15, 1, 1)
    """
    return max(min(-(-WIDE // w), HIGH // h), 1) if w < TINY else 1


def shades(sd: NDArray[Any]) -> tuple[NDArray[np.uint8], float]:
    """Standard deviations from black, 0, to white, the largest or not known; and what that is."""
    known = np.asarray(sd, dtype=np.float64)
    largest = float(np.nanmax(known, initial=0.0)) or 1.0
    share = np.where(np.isnan(known), 1.0, known / largest)
    return np.rint(255.0 * share).astype(np.uint8), largest


def side_by_side(panels: Sequence[tuple[str, NDArray[Any]]]) -> Bytes:
    """Images of bytes, (h, w) or (h, w, 3), in a row, each with its caption below."""
    Image, ImageDraw, ImageFont = _pillow()
    coloured = [_colour(np.asarray(one)) for _, one in panels]
    height = max(one.shape[0] for one in coloured)
    size = int(np.clip(height // 18, 11, 28))
    font = ImageFont.load_default(size)
    captions = [
        "\n".join(_lines(caption, one.shape[1], font.getlength))
        for (caption, _), one in zip(panels, coloured, strict=True)
    ]
    below = (size + LEADING) * max(caption.count("\n") for caption in captions) + size + 2 * GAP
    width = sum(one.shape[1] for one in coloured) + GAP * (len(coloured) + 1)
    sheet = Image.new("RGB", (width, GAP + height + below), (PAPER,) * 3)
    pen = ImageDraw.Draw(sheet)
    left = GAP
    for caption, one in zip(captions, coloured, strict=True):
        sheet.paste(Image.fromarray(one), (left, GAP))
        place = (left, height + 2 * GAP - 2)
        pen.multiline_text(place, caption, fill=(INK,) * 3, font=font, spacing=LEADING)
        left += one.shape[1] + GAP
    return np.asarray(sheet)


def _lines(caption: str, width: float, length: Callable[[str], float]) -> list[str]:
    """The caption in lines no longer than the panel is wide, broken at spaces where there are any.

    >>> _lines("restored image", 9, len), _lines("deviation", 4, len)
    (['restored', 'image'], ['devi', 'atio', 'n'])
    """
    lines = []
    while caption:
        fits = max(k for k in range(1, len(caption) + 1) if k == 1 or length(caption[:k]) <= width)
        if fits < len(caption) and " " in caption[: fits + 1]:
            fits = caption[: fits + 1].rindex(" ")
        lines.append(caption[:fits])
        caption = caption[fits:].lstrip()
    return lines


def _figure(number: float) -> str:
    """Two digits, and all that stand before the point.

    >>> _figure(7.66), _figure(2073.4), _figure(2.5e-9)
    ('7.7', '2073', '2.5e-09')
    """
    return f"{number:.0f}" if 100 <= number < 1e6 else f"{number:.2g}"


def _range(image: NDArray[Any]) -> tuple[float, float]:
    if image.dtype.kind == "u":
        return 0.0, float(np.iinfo(image.dtype).max)
    low, high = float(np.nanmin(image)), float(np.nanmax(image))
    if low >= 0.0 and 1.0 / 255.0 < high <= 1.0:  # less would be invisible
        return 0.0, 1.0
    return low, high if high > low else low + 1.0


def _shown(image: NDArray[Any], low: float, high: float) -> Bytes:
    values = _without_opacity(image).astype(np.float64)
    observed = np.nan_to_num(values, nan=low)
    scaled = np.clip((observed / 2 - low / 2) / (high / 2 - low / 2), 0.0, 1.0)  # half is finite
    return _colour(np.rint(255.0 * scaled).astype(np.uint8))


def _with_missing(image: NDArray[Any], mask: Any, low: float, high: float) -> tuple[Bytes, str]:
    """The image, what is missing in colour, and words for that."""
    shown, plain = _shown(image, low, high), _without_opacity(image)
    missing = np.isnan(plain) if plain.dtype.kind == "f" else np.zeros(plain.shape, dtype=bool)
    if mask is not None:
        given = np.asarray(np.asarray(mask) != 0)
        missing = missing | (given[..., None] if given.ndim == 2 else given[..., : plain.shape[2]])
    whole = np.asarray(missing.all(axis=2, keepdims=True))  # (h, w, 1)
    # An image that is mostly missing would be mostly magenta.
    in_magenta = bool(whole.any() and missing.mean() < 0.5)
    shown[whole[..., 0]] = MISSING if in_magenta else (0, 0, 0)
    if plain.shape[2] == 3:
        shown[missing & ~whole] = 0
    if not missing.any():
        return shown, ""
    if (missing & ~whole).any():
        return shown, ", missing entries as 0" + ", pixels in magenta" * in_magenta
    return shown, f", missing in {'magenta' if in_magenta else 'black'}"


def _without_opacity(image: NDArray[Any]) -> NDArray[Any]:
    """(h, w, c)."""
    wide = image[..., None] if image.ndim == 2 else image
    return wide[..., :-1] if wide.shape[2] in (2, 4) else wide


def _colour(image: NDArray[Any]) -> Bytes:
    wide = image[..., None] if image.ndim == 2 else image
    colours = wide[..., :3] if wide.shape[2] >= 3 else wide[..., :1]
    return np.array(np.broadcast_to(colours, (*wide.shape[:2], 3)), dtype=np.uint8)


def _pillow() -> tuple[Any, Any, Any]:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise MissingExtraError("drawing images side by side", "pillow", "cli") from None
    return Image, ImageDraw, ImageFont
