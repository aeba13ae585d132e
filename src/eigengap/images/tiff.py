"""TIFF 6.0 where it holds numbers: whole or real samples in any number of channels.

Pillow has no place for real samples in colour, of 64 bits, or in five channels, which instruments
and other packages write. Read here are samples of 8 to 64 bits in either byte order, in strips or
tiles, channels beside or after one another, as they are or deflated, with or without a predictor,
also in BigTIFF; palettes, other compressions and the like are left to Pillow. What is written is
the plainest form: one deflated strip.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[Any]  # (h, w) or (h, w, c)
Fields = dict[int, tuple[int, ...]]  # values by tag

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, STRIPS, ORIENTATION, CHANNELS = (
    256, 257, 258, 259, 262, 273, 274, 277
)  # fmt: skip
ROWS, STRIP_BYTES, PLANAR, PREDICTOR, TILE_WIDTH, TILE_HEIGHT, TILES, TILE_BYTES = (
    278, 279, 284, 317, 322, 323, 324, 325
)  # fmt: skip
FILL_ORDER, EXTRA, NUMBER = 266, 338, 339

GREY, RGB = 1, 2
UNSPECIFIED, PREMULTIPLIED, OPACITY = 0, 1, 2  # what a channel beyond the colours is
PLAIN, DEFLATE = 1, 8
DEFLATED = (DEFLATE, 32946)  # Adobe's number, and an older one
DIFFERENCES, OF_FLOATS = 2, 3  # predictors
RATIO = 1100  # by which deflating makes bytes fewer, at most

KINDS = {1: "u", 2: "i", 3: "f"}
TYPES = {(8 * n, k): f"{kind}{n}" for k, kind in KINDS.items() for n in (1, 2, 4, 8)}
del TYPES[8, 3]  # no float has 8 bits
METHODS = {5: "LZW", 7: "JPEG", 8: "deflating", 32773: "PackBits", 50000: "Zstandard"}
VALUES = {1: "B", 3: "H", 4: "I", 16: "Q"}  # whole numbers in a directory
VERSIONS = {42: ("H", "I", 4), 43: ("Q", "Q", 8)}  # types of counts and places; where the first is
ELSEWHERE = "read it with another package, tifffile.imread for one, and give the array"
FAULTS = (LookupError, ValueError, TypeError, OverflowError, struct.error, zlib.error)


@dataclass(frozen=True, eq=False)
class Tiff:
    """The first picture of a file."""

    pixels: Pixels
    pages: int
    orientation: int  # as in EXIF


def read_tiff(data: bytes) -> Tiff | None:
    """The first picture of a TIFF; None where it is none, is damaged, or is one for Pillow."""
    try:
        fields, order, pages = _first_directory(data)
        pixels = _pixels(data, fields, order)
    except FAULTS:
        return None
    return Tiff(pixels, pages, fields.get(ORIENTATION, (1,))[0])


def trouble(data: bytes) -> str:
    """Why a TIFF that nobody reads is not read: what it holds; "" for what is no TIFF."""
    if data[:4] not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return ""
    try:
        fields, _, _ = _first_directory(data)
        held = _in_words(fields)
    except FAULTS:
        return "the TIFF in it is damaged"
    try:
        _require_ours(fields)
    except FAULTS:
        return f"it is {held}, which is not read here; {ELSEWHERE}"
    return f"it is {held}, and damaged"


def _in_words(fields: Fields) -> str:
    w, h = fields[WIDTH][0], fields[HEIGHT][0]
    c, bits = fields.get(CHANNELS, (1,))[0], fields.get(BITS, (1,))[0]
    kind = {2: " with signs", 3: " as floats"}.get(fields.get(NUMBER, (1,))[0], "")
    how = fields.get(COMPRESSION, (PLAIN,))[0]
    packed = "not compressed" if how == PLAIN else f"compressed by {METHODS.get(how, how)}"
    samples = f"{c} sample{'s' * (c != 1)} a pixel of {bits} bit{'s' * (bits != 1)}{kind}"
    return f"a TIFF of {w} x {h} pixels, {samples}, {packed}"


# Reading -------------------------------------------------------------------------------------


def _first_directory(data: bytes) -> tuple[Fields, str, int]:
    """Whole numbers by tag, the byte order, and how many pictures there are."""
    order = {b"II": "<", b"MM": ">"}[data[:2]]
    (version,) = struct.unpack_from(f"{order}H", data, 2)
    count_type, place_type, first = VERSIONS[version]
    (start,) = struct.unpack_from(order + place_type, data, first)
    fields, following = _directory(data, start, order, count_type, place_type)
    places = {start}
    while following and following not in places:
        places.add(following)
        try:
            following = _directory(data, following, order, count_type, place_type)[1]
        except FAULTS:  # the first picture may be whole all the same
            break
    return fields, order, len(places)


def _directory(
    data: bytes, start: int, order: str, count_type: str, place_type: str
) -> tuple[Fields, int]:
    """Whole numbers by tag, and where the next directory is (0: nowhere)."""
    (count,) = struct.unpack_from(order + count_type, data, start)
    at = start + struct.calcsize(f"={count_type}")
    inside = struct.calcsize(f"={place_type}")  # bytes that an entry itself has room for
    fields = {}
    for _ in range(count):
        tag, kind, n = struct.unpack_from(f"{order}HH{place_type}", data, at)
        at += 4 + inside
        if kind in VALUES:
            form = f"{order}{n}{VALUES[kind]}"
            (elsewhere,) = struct.unpack_from(order + place_type, data, at)
            place = at if struct.calcsize(form) <= inside else elsewhere
            fields[tag] = struct.unpack_from(form, data, place)
        at += inside
    (following,) = struct.unpack_from(order + place_type, data, at)
    return fields, following


def _pixels(data: bytes, fields: Fields, order: str) -> Pixels:
    w, h, c = fields[WIDTH][0], fields[HEIGHT][0], fields.get(CHANNELS, (1,))[0]
    kind, how, predictor = _require_ours(fields)
    dtype = np.dtype(order + kind)
    if not 0 < w * h * c * dtype.itemsize <= RATIO * len(data):
        raise ValueError("more than these bytes can hold")
    apart = fields.get(PLANAR, (1,))[0] == 2  # channels one after another
    planes, s = (c, 1) if apart else (1, c)
    # A strip is a tile as wide as the picture, and the last one ends with it.
    tiled = TILES in fields
    tw = fields[TILE_WIDTH][0] if tiled else w
    th = fields[TILE_HEIGHT][0] if tiled else min(fields.get(ROWS, (h,))[0], h)
    pieces = zip(
        fields[TILES if tiled else STRIPS],
        fields[TILE_BYTES if tiled else STRIP_BYTES],
        product(range(planes), range(0, h, th), range(0, w, tw)),
        strict=True,
    )
    samples = np.empty((planes, h, w, s), dtype.newbyteorder("="))
    for place, length, (plane, y, x) in pieces:
        shape = (th if tiled else min(th, h - y), tw, s)
        raw = _unpacked(data[place : place + length], how, prod(shape) * dtype.itemsize)
        piece = _unpredicted(raw, shape, dtype, predictor)
        samples[plane, y : y + th, x : x + tw] = piece[: h - y, : w - x]
    pixels = np.moveaxis(samples[..., 0], 0, 2) if apart else samples[0]
    return np.ascontiguousarray(pixels[..., 0] if c == 1 else pixels)


def _require_ours(fields: Fields) -> tuple[str, int, int]:
    """Type of the samples, compression and predictor, if they are among those that are read."""
    (bits,), (number,) = set(fields[BITS]), set(fields.get(NUMBER, (1,)))
    how, predictor = (fields.get(tag, (1,))[0] for tag in (COMPRESSION, PREDICTOR))
    if (
        fields[PHOTOMETRIC][0] not in (GREY, RGB)
        or how not in (PLAIN, *DEFLATED)
        or predictor not in (1, DIFFERENCES, OF_FLOATS)
        or PREMULTIPLIED in fields.get(EXTRA, ())
        or fields.get(FILL_ORDER, (1,))[0] != 1
    ):
        raise ValueError("of a kind for Pillow")
    return TYPES[bits, number], how, predictor


def _unpacked(packed: bytes, how: int, size: int) -> NDArray[np.uint8]:
    """So many bytes, and not one more, whatever the packed ones would make."""
    raw = packed[:size] if how == PLAIN else zlib.decompressobj().decompress(packed, size)
    return np.frombuffer(raw, np.uint8)


def _unpredicted(
    raw: NDArray[np.uint8], shape: tuple[int, int, int], dtype: np.dtype[Any], predictor: int
) -> Pixels:
    """Samples (rows, columns, s) of a strip or tile whose neighbours may have been subtracted."""
    rows, columns, s = shape
    if predictor == OF_FLOATS:  # the highest bytes of all samples of a row, then the next ones, ...
        differences = raw.reshape(rows, dtype.itemsize * columns, s)
        summed = np.cumsum(differences, axis=1, dtype=np.uint8)
        by_sample = summed.reshape(rows, dtype.itemsize, columns * s).swapaxes(1, 2)
        return np.ascontiguousarray(by_sample).view(dtype.newbyteorder(">")).reshape(shape)
    samples = raw.view(dtype).reshape(shape)
    if predictor == DIFFERENCES:  # of the bits as whole numbers, also where they are floats
        whole = samples.view(f"{dtype.str[0]}u{dtype.itemsize}").astype(f"=u{dtype.itemsize}")
        return np.cumsum(whole, axis=1, dtype=whole.dtype).view(dtype.newbyteorder("="))
    return samples


# Writing -------------------------------------------------------------------------------------


def tiff_bytes(pixels: Pixels) -> bytes:
    """A TIFF of samples (h, w) or (h, w, c), uint8, uint16, float32 or float64."""
    rows = pixels[..., None] if pixels.ndim == 2 else pixels
    h, w, c = rows.shape
    little = rows.astype(rows.dtype.newbyteorder("<"))
    strip = zlib.compress(little.tobytes(), 6)
    bits, number = 8 * rows.dtype.itemsize, 3 if rows.dtype.kind == "f" else 1
    extra = {1: [], 2: [OPACITY], 3: [], 4: [OPACITY]}.get(c, [UNSPECIFIED] * (c - 1))
    fields: list[tuple[int, list[int], bool]] = [  # tag, values, whether they are long
        (WIDTH, [w], True), (HEIGHT, [h], True), (BITS, [bits] * c, False),
        (COMPRESSION, [DEFLATE], False), (PHOTOMETRIC, [RGB if c in (3, 4) else GREY], False),
        (STRIPS, [8], True), (CHANNELS, [c], False), (ROWS, [h], True),
        (STRIP_BYTES, [len(strip)], True), (PLANAR, [1], False),
        *([(EXTRA, extra, False)] if extra else []), (NUMBER, [number] * c, False),
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
