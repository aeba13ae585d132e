"""Pictures of more than eight bits a channel, which Pillow itself cannot hold in colour.

Reading: Pillow decodes sixteen-bit colour, and keeps the upper byte of each sample. The same bytes
declared to be of the other byte order give the lower byte instead: two readings are the whole.
Writing: PNG (ISO/IEC 15948) and TIFF 6.0 in their plainest form, a header and one deflated strip.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[Any]  # (h, w) or (h, w, c)

OTHER_ORDER = {"B": "L", "L": "B"}
PNG_COLOUR = {1: 0, 2: 4, 3: 2, 4: 6}  # channels: colour type
TIFF_EXTRA = {2: 1, 4: 1}  # channels: how many of them are alpha
DEFLATE = 8  # Adobe's number in TIFF
RATIO = 1100  # by which deflating makes bytes fewer, at most


def sixteen_bits(open_again: Any, rawmode: str) -> Pixels:
    """(h, w, c) uint16 of a colour picture whose samples have 16 bits, whatever its compression.

    `open_again()` gives the picture, not yet loaded; `rawmode` is how Pillow would read it.
    """
    if rawmode.startswith("LA;16"):  # grey, alpha: four bytes a pixel, read as four channels
        four = _loaded(open_again(), "RGBA").astype(np.uint16)
        return four[..., 0::2] << 8 | four[..., 1::2]
    order = rawmode[-1]
    if order == "N":  # of this machine
        order = "L" if np.little_endian else "B"
    upper = _loaded(open_again(), rawmode[:-1] + order)
    lower = _loaded(open_again(), rawmode[:-1] + OTHER_ORDER[order])
    return upper.astype(np.uint16) << 8 | lower


def _loaded(picture: Any, rawmode: str) -> Pixels:
    picture.tile = [_in_mode(tile, rawmode) for tile in picture.tile]
    return np.asarray(picture)


def _in_mode(tile: Any, rawmode: str) -> Any:
    args = (rawmode, *tile.args[1:]) if isinstance(tile.args, tuple) else rawmode
    return tile._replace(args=args)


def png_bytes(pixels: Pixels) -> bytes:
    """A PNG of uint16 samples, (h, w) or (h, w, c) with c = 1 to 4."""
    rows, h, w, c = _rows(pixels)
    big = np.ascontiguousarray(rows.astype(">u2")).view(np.uint8).reshape(h, -1)
    up = np.diff(big, axis=0, prepend=np.zeros((1, big.shape[1]), np.uint8))  # filter 2, "up"
    lines = np.column_stack([np.full(h, 2, np.uint8), up])
    head = struct.pack(">IIBBBBB", w, h, 16, PNG_COLOUR[c], 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def tiff_bytes(pixels: Pixels) -> bytes:
    """A TIFF of uint8, uint16 or float32 samples, (h, w) or (h, w, c) with c = 1 to 4."""
    rows, h, w, c = _rows(pixels)
    little = rows.astype(rows.dtype.newbyteorder("<"))
    strip = zlib.compress(little.tobytes(), 6)
    bits, number = 8 * rows.dtype.itemsize, 3 if rows.dtype.kind == "f" else 1
    fields: list[tuple[int, list[int], bool]] = [  # tag, values, whether they are long
        (256, [w], True), (257, [h], True), (258, [bits] * c, False), (259, [DEFLATE], False),
        (262, [2 if c > 2 else 1], False), (273, [8], True), (277, [c], False), (278, [h], True),
        (279, [len(strip)], True), (284, [1], False),
        *([(338, [2], False)] if c in TIFF_EXTRA else []), (339, [number] * c, False),
    ]  # fmt: skip
    strip += b"\0" * (len(strip) % 2)  # the directory begins at an even place
    start = 8 + len(strip)
    after = start + 2 + 12 * len(fields) + 4  # where values that do not fit into their entry go
    entries, long_values = b"", b""
    for tag, values, is_long in fields:
        data = struct.pack(f"<{len(values)}{'I' if is_long else 'H'}", *values)
        place = struct.pack("<I", after + len(long_values))
        if len(data) > 4:
            long_values += data
            data = place
        entries += struct.pack("<HHI", tag, 4 if is_long else 3, len(values)) + data.ljust(4, b"\0")
    directory = struct.pack("<H", len(fields)) + entries + struct.pack("<I", 0)
    return b"II*\0" + struct.pack("<I", start) + strip + directory + long_values


def plain_tiff(data: bytes) -> Pixels | None:
    """The samples of a TIFF in the form that `tiff_bytes` writes, else None: it is for Pillow."""
    try:
        fields = _fields(data)
        w, h, c = fields[256][0], fields[257][0], fields[277][0]
        bits, number = set(fields[258]), set(fields[339])
        chunky = fields[284] == (1,) and fields[259] == (DEFLATE,) and len(fields[273]) == 1
        dtype = {(8, 1): "<u1", (16, 1): "<u2", (32, 3): "<f4"}[(bits.pop(), number.pop())]
        if (
            not chunky
            or bits
            or number
            or {317, 274} & fields.keys()
            or fields[262][0] not in (1, 2)
        ):
            return None
        size = w * h * c * np.dtype(dtype).itemsize
        if size > RATIO * len(data):  # more than deflating can have made of it
            return None
        strip = data[fields[273][0] :][: fields[279][0]]
        samples = zlib.decompressobj().decompress(strip, size)  # and not a byte more
        pixels = np.frombuffer(samples, dtype).reshape(h, w, c)
    except (KeyError, IndexError, ValueError, struct.error, zlib.error):
        return None
    pixels = pixels.astype(pixels.dtype.newbyteorder("="))
    return pixels[..., 0] if c == 1 else pixels


def _fields(data: bytes) -> dict[int, tuple[int, ...]]:
    """The first directory of a little-endian TIFF: what is short or long, by tag."""
    if data[:4] != b"II*\0":
        raise ValueError("no TIFF of this order")
    (start,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, start)
    fields = {}
    for k in range(count):
        at = start + 2 + 12 * k
        tag, kind, n = struct.unpack_from("<HHI", data, at)
        if kind not in (3, 4):
            continue
        size = 2 if kind == 3 else 4
        place = at + 8 if n * size <= 4 else struct.unpack_from("<I", data, at + 8)[0]
        fields[tag] = struct.unpack_from(f"<{n}{'H' if kind == 3 else 'I'}", data, place)
    (following,) = struct.unpack_from("<I", data, start + 2 + 12 * count)
    if following:
        raise ValueError("several pages")
    return fields


def _rows(pixels: Pixels) -> tuple[Pixels, int, int, int]:
    """(h, w, c) and its lengths."""
    deep = pixels[..., None] if pixels.ndim == 2 else pixels
    h, w, c = deep.shape
    return deep, h, w, c
