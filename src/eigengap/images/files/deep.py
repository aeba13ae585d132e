"""Sixteen bits a channel in colour, which Pillow itself cannot hold.

Reading: Pillow decodes such samples, and keeps the upper byte of each. The same bytes declared to
be of the other byte order give the lower byte instead: two readings are the whole. Grey it keeps
whole, and a PPM in colour is a grey one three times as wide.
Writing: PNG (ISO/IEC 15948) in its plainest form.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[Any]  # (h, w) or (h, w, c)

TOP = 65535
GREY_PPM = {b"P3": b"P2", b"P6": b"P5"}
OTHER_ORDER = {"B": "L", "L": "B"}
PNG_COLOUR = {1: 0, 2: 4, 3: 2, 4: 6}  # channels: colour type


def sixteen_bits(open_again: Any, rawmode: str) -> Pixels:
    """(h, w, c) uint16 of a colour image whose samples have 16 bits, whatever its compression.

    `open_again()` gives the image, not yet loaded; `rawmode` is how Pillow would read it. Colours
    that were multiplied by opacity, which it would divide byte by byte, stay as they are stored.
    """
    rawmode = rawmode.replace("RGBa", "RGBA")
    if rawmode.startswith("LA;16"):  # grey, alpha: four bytes a pixel, read as four channels
        four = _loaded(open_again(), "RGBA").astype(np.uint16)
        return four[..., 0::2] << 8 | four[..., 1::2]
    order = rawmode[-1]
    if order == "N":  # of this machine
        order = "L" if np.little_endian else "B"
    upper = _loaded(open_again(), rawmode[:-1] + order)
    lower = _loaded(open_again(), rawmode[:-1] + OTHER_ORDER[order])
    return upper.astype(np.uint16) << 8 | lower


def ppm_in_grey(data: bytes, image: Any) -> bytes | None:
    """The file as a grey one three times as wide, if it is a PPM in colour of more than 8 bits."""
    magic, args = data[:2], image.tile[0].args if image.tile else ()
    if image.format != "PPM" or magic not in GREY_PPM or not isinstance(args, tuple):
        return None
    most = args[-1]  # that a sample can be
    if most < 256:
        return None
    w, h = image.size
    return b"%s %d %d %d\n" % (GREY_PPM[magic], 3 * w, h, most) + data[image.tile[0].offset :]


def with_opacity(pixels: Pixels, missing: Any) -> Pixels:
    """With a last channel that is 0 where a pixel has the transparent colour."""
    deep = pixels[..., None] if pixels.ndim == 2 else pixels
    observed = np.any(deep != np.asarray(missing, np.uint16), axis=2, keepdims=True)
    return np.concatenate([deep, observed * np.uint16(TOP)], axis=2)


def _loaded(image: Any, rawmode: str) -> Pixels:
    image.tile = [
        tile._replace(args=(rawmode, *tile.args[1:]) if isinstance(tile.args, tuple) else rawmode)
        for tile in image.tile
    ]
    return np.asarray(image)


def png_bytes(pixels: Pixels) -> bytes:
    """A PNG of uint16 samples, (h, w) or (h, w, c) with c = 1 to 4."""
    rows = pixels[..., None] if pixels.ndim == 2 else pixels
    h, w, c = rows.shape
    big = np.ascontiguousarray(rows.astype(">u2")).view(np.uint8).reshape(h, -1)
    up = np.diff(big, axis=0, prepend=np.zeros((1, big.shape[1]), np.uint8))  # filter 2, "up"
    lines = np.column_stack([np.full(h, 2, np.uint8), up])
    head = struct.pack(">IIBBBBB", w, h, 16, PNG_COLOUR[c], 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
