"""TIFF 6.0 where it holds numbers: whole or real samples in any number of channels.

Pillow has no place for real samples in colour, of 64 bits, or in five channels, which instruments
and other packages write. Read here are samples of 8 to 64 bits in either byte order, in strips or
tiles, channels interleaved or not, as they are or deflated, with or without a predictor,
also in BigTIFF; palettes and other compressions are left to Pillow. What is written is
the plainest form: one deflated strip.

A directory may say anything. Only the tags that are known here are looked at, and nothing takes
more time or memory than a file of that length can need.
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

from eigengap.wording import words

Pixels = NDArray[Any]  # (h, w) or (h, w, c)

KNOWN = (
    WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER, STRIPS, ORIENTATION, CHANNELS, ROWS,
    STRIP_BYTES, PLANAR, PREDICTOR, TILE_WIDTH, TILE_HEIGHT, TILES, TILE_BYTES, EXTRA, NUMBER,
) = (
    256, 257, 258, 259, 262, 266, 273, 274, 277, 278,
    279, 284, 317, 322, 323, 324, 325, 338, 339,
)  # fmt: skip
MOST_CHANNELS = 65535

WHITE_IS_ZERO, GREY, RGB = 0, 1, 2
UNSPECIFIED, PREMULTIPLIED, OPACITY = 0, 1, 2  # what a channel beyond the colours is
PLAIN, DEFLATE = 1, 8
DEFLATED = (DEFLATE, 32946)  # Adobe's number, and an older one
DIFFERENCES, OF_FLOATS = 2, 3  # predictors
RATIO = 1100  # by which deflating makes bytes fewer, at most

KINDS = {1: "u", 2: "i", 3: "f"}
TYPES = {(8 * n, k): f"{kind}{n}" for k, kind in KINDS.items() for n in (1, 2, 4, 8)}
del TYPES[8, 3]  # no float has 8 bits
METHODS = {5: "LZW", 7: "JPEG", 8: "deflating", 32773: "PackBits", 50000: "Zstandard"}
VALUES = {1: "u1", 3: "u2", 4: "u4", 16: "u8"}  # whole numbers in a directory
LENGTHS = dict(enumerate((1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4), 1)) | {16: 8, 17: 8, 18: 8}
VERSIONS = {42: ("H", "I", 4), 43: ("Q", "Q", 8)}  # types of counts and places; where the first is
SMALLEST_PAGE = 18  # bytes of a directory with one entry
SHARED = 4  # times the bytes of a file that all values together may have
FAULTS = (LookupError, ValueError, TypeError, OverflowError, struct.error, zlib.error)


def elsewhere() -> str:
    """The way out of a file that is not read here."""
    return words().either(
        "read it with another package, tifffile.imread for one, and give the array as float64",
        "convert it with another program first, to PNG, or to TIFF of 8 or 16 bits or of floats "
        "that is not compressed",
    )


class DamagedError(ValueError):
    """A TIFF whose directory is cut, or points beyond the file: it cannot be read."""


@dataclass(frozen=True, eq=False)
class Tiff:
    """The first image of a file, its samples as they are stored."""

    pixels: Pixels
    pages: int
    orientation: int  # as in EXIF
    photometric: int
    extra: tuple[int, ...]  # what the last channels are


def read_tiff(data: bytes, most_pixels: int | None = None) -> Tiff | None:
    """The first image of a TIFF; None where it is no TIFF, or is one for Pillow.

    One of more than `most_pixels` is left to Pillow as well, which refuses it.
    """
    if not is_tiff(data):
        return None
    fields = Directory.first_of(data)
    try:
        if most_pixels is not None and fields.first(WIDTH) * fields.first(HEIGHT) > most_pixels:
            return None
        return Tiff(
            _pixels(fields),
            count_pages(data),
            fields.first(ORIENTATION, 1),
            fields.first(PHOTOMETRIC),
            fields.values(EXTRA, ()),
        )
    except DamagedError:  # of our kind, and impossible: Pillow would only take longer to say so
        raise
    except FAULTS:
        return None


def is_tiff(data: bytes) -> bool:
    return data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def trouble(data: bytes) -> str:
    """Why a TIFF cannot be read: what it holds; "" for what is no TIFF."""
    if not is_tiff(data):
        return ""
    try:
        fields = Directory.first_of(data)
        w, h = fields.first(WIDTH), fields.first(HEIGHT)
        c, bits = fields.first(CHANNELS, 1), fields.first(BITS, 1)
        kind = {2: " with signs", 3: " as floats"}.get(fields.first(NUMBER, 1), "")
        how = fields.first(COMPRESSION, PLAIN)
    except FAULTS:
        return "the TIFF in it is damaged"
    packed = "not compressed" if how == PLAIN else f"compressed by {METHODS.get(how, how)}"
    samples = f"{c} sample{'s' * (c != 1)} a pixel of {bits} bit{'s' * (bits != 1)}{kind}"
    held = f"it is a TIFF of {w} x {h} pixels, {samples}, {packed}"
    try:
        _require_ours(fields)
    except FAULTS:
        return f"{held}, which is not read here; {elsewhere()}"
    return f"{held}, and damaged"


# Samples as they are displayed ---------------------------------------------------------------


def as_observed(samples: Pixels, photometric: int, extra: tuple[int, ...]) -> Pixels:
    """More is brighter, and colours are not darkened by their transparency."""
    if samples.ndim == 2 or len(extra) >= samples.shape[2]:
        extra = ()
    most = None if samples.dtype.kind == "f" else np.iinfo(samples.dtype).max
    if photometric == WHITE_IS_ZERO:
        if samples.dtype.kind != "u":
            raise ValueError(
                f"0 is white in it, and of samples of type {samples.dtype.name} none is the "
                "largest, which would be black"
            )
        inverted = np.iinfo(samples.dtype).max - samples
        for k, what in enumerate(reversed(extra), 1):
            if what in (PREMULTIPLIED, OPACITY):
                inverted[..., -k] = samples[..., -k]
        samples = inverted
    if PREMULTIPLIED in extra:  # divided by opacity; black where it is transparent
        colours = samples.shape[2] - len(extra)
        opacity = samples[..., colours + extra.index(PREMULTIPLIED), None].astype(np.float64)
        full = np.divide(most or 1.0, opacity, out=np.zeros_like(opacity), where=opacity != 0)
        straight = samples[..., :colours] * full
        samples = samples.copy()
        samples[..., :colours] = straight if most is None else np.minimum(np.rint(straight), most)
    return samples


def opacity_is_last(samples: Pixels, photometric: int, extra: tuple[int, ...]) -> bool:
    """Whether the last of 2 or 4 channels is opacity: by its tags, or as the fourth with RGB."""
    if samples.ndim == 2 or samples.shape[2] not in (2, 4) or len(extra) > 1:
        return False
    return extra[-1:] in ((PREMULTIPLIED,), (OPACITY,)) or photometric == RGB


# Reading -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Directory:
    """What is known of an image by tag, unpacked only where it is asked for."""

    data: bytes
    order: str
    entries: dict[int, tuple[str, int, int]]  # type, count and place of the values

    @classmethod
    def first_of(cls, data: bytes) -> Directory:
        try:
            order, count_type, place_type, at = _head(data)
            (count,) = struct.unpack_from(order + count_type, data, at)
            at += struct.calcsize(f"={count_type}")
            inside = struct.calcsize(f"={place_type}")  # bytes that an entry itself has room for
            entries, total = {}, 0
            for _ in range(count):
                tag, kind, n = struct.unpack_from(f"{order}HH{place_type}", data, at)
                (elsewhere,) = struct.unpack_from(order + place_type, data, at + 4 + inside)
                size = n * LENGTHS.get(kind, 0)
                place = at + 4 + inside if size <= inside else elsewhere
                within = place + size <= len(data)
                total += size if within else 0
                if tag in KNOWN and kind in VALUES and n:
                    if not within:
                        raise ValueError("values beyond the end")
                    entries[tag] = VALUES[kind], n, place
                at += 4 + 2 * inside
            if total > SHARED * len(data):  # which Pillow would read as often as they are named
                raise ValueError("the same bytes again and again")
        except FAULTS as error:
            raise DamagedError("the TIFF in it is damaged") from error
        return cls(data, order, entries)

    def values(self, tag: int, *default: tuple[int, ...]) -> tuple[int, ...]:
        """Of tags that have one, or one a channel."""
        if tag not in self.entries and default:
            return default[0]
        return tuple(self.numbers(tag, MOST_CHANNELS).tolist())

    def first(self, tag: int, *default: int) -> int:
        return self.values(tag, *((one,) for one in default))[0]

    def numbers(self, tag: int, most: int) -> NDArray[Any]:
        kind, count, place = self.entries[tag]
        if count > most:
            raise ValueError("more values than there can be")
        return np.frombuffer(self.data, self.order + kind, count, place)


def count_pages(data: bytes) -> int:
    """How many images a TIFF holds, as far as their directories follow one another."""
    order, count_type, place_type, start = _head(data)
    inside = struct.calcsize(f"={place_type}")
    places: set[int] = set()
    while start and start not in places and SMALLEST_PAGE * len(places) < len(data):
        places.add(start)
        try:
            (count,) = struct.unpack_from(order + count_type, data, start)
            end = start + struct.calcsize(f"={count_type}") + count * (4 + 2 * inside)
            (start,) = struct.unpack_from(order + place_type, data, end)
        except FAULTS:  # the first image may be whole all the same
            break
    return len(places)


def _head(data: bytes) -> tuple[str, str, str, int]:
    """Byte order, types of counts and places, and where the first directory is."""
    order = {b"II": "<", b"MM": ">"}[data[:2]]
    (version,) = struct.unpack_from(f"{order}H", data, 2)
    count_type, place_type, first = VERSIONS[version]
    (start,) = struct.unpack_from(order + place_type, data, first)
    return order, count_type, place_type, start


def _pixels(fields: Directory) -> Pixels:
    w, h, c = fields.first(WIDTH), fields.first(HEIGHT), fields.first(CHANNELS, 1)
    kind, how, predictor = _require_ours(fields)
    dtype = np.dtype(fields.order + kind)
    apart = fields.first(PLANAR, 1) == 2  # channels one after another
    planes, s = (c, 1) if apart else (1, c)
    # A strip is a tile as wide as the image, and the last one ends with it.
    tiled = TILES in fields.entries
    tw = fields.first(TILE_WIDTH) if tiled else w
    th = fields.first(TILE_HEIGHT) if tiled else min(fields.first(ROWS, h), h)
    if not (th > 0 and tw > 0):
        raise ValueError("strips or tiles of no pixels")
    down, across = -(-h // th), -(-w // tw)
    stored = planes * s * (down * th * across * tw if tiled else h * w)
    if not 0 < stored * dtype.itemsize <= RATIO * len(fields.data):
        raise DamagedError("it claims more pixels than its bytes can hold")
    pieces = _pieces(fields, tiled, planes * down * across)
    corners = product(range(planes), range(0, h, th), range(0, w, tw))
    samples = np.empty((planes, h, w, s), dtype.newbyteorder("="))
    data = memoryview(fields.data)  # of which slices are no copies
    for (place, length), (plane, y, x) in zip(pieces, corners, strict=True):
        shape = (th if tiled else min(th, h - y), tw, s)
        packed = data[int(place) : int(place) + int(length)]
        size = prod(shape) * dtype.itemsize  # and not a byte more, whatever the packed ones make
        raw = packed[:size] if how == PLAIN else zlib.decompressobj().decompress(packed, size)
        piece = _unpredicted(np.frombuffer(raw, np.uint8), shape, dtype, predictor)
        samples[plane, y : y + th, x : x + tw] = piece[: h - y, : w - x]
    pixels = np.moveaxis(samples[..., 0], 0, 2) if apart else samples[0]
    return np.ascontiguousarray(pixels[..., 0] if c == 1 else pixels)


def _pieces(fields: Directory, tiled: bool, n: int) -> NDArray[Any]:
    """(n, 2) place and length of every strip or tile."""
    places = fields.numbers(TILES if tiled else STRIPS, n)
    lengths = fields.numbers(TILE_BYTES if tiled else STRIP_BYTES, n)
    if not len(places) == len(lengths) == n:
        raise ValueError("not as many strips or tiles as the image has")
    if float(np.sum(lengths.astype(np.float64))) > SHARED * len(fields.data):
        raise DamagedError("its strips or tiles are the same bytes again and again")
    return np.column_stack([places.astype(np.uint64), lengths.astype(np.uint64)])


def _require_ours(fields: Directory) -> tuple[str, int, int]:
    """Type of the samples, compression and predictor, if they are among those that are read."""
    (bits,), (number,) = set(fields.values(BITS)), set(fields.values(NUMBER, (1,)))
    how, predictor = fields.first(COMPRESSION, PLAIN), fields.first(PREDICTOR, 1)
    if (
        fields.first(PHOTOMETRIC) not in (WHITE_IS_ZERO, GREY, RGB)
        or how not in (PLAIN, *DEFLATED)
        or predictor not in (1, DIFFERENCES, OF_FLOATS)
        or fields.first(FILL_ORDER, 1) != 1
    ):
        raise ValueError("of a kind for Pillow")
    return TYPES[bits, number], how, predictor


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


def tiff_bytes(pixels: Pixels, opacity: bool) -> bytes:
    """A TIFF of samples (h, w) or (h, w, c), uint8, uint16, float32 or float64.

    `opacity` is whether the last channel is one.
    """
    rows = pixels[..., None] if pixels.ndim == 2 else pixels
    h, w, c = rows.shape
    little = rows.astype(rows.dtype.newbyteorder("<"))
    strip = zlib.compress(little.tobytes(), 6)
    bits, number = 8 * rows.dtype.itemsize, 3 if rows.dtype.kind == "f" else 1
    colours = c - opacity
    basic = 3 if colours == 3 else 1  # that the photometric interpretation speaks of
    extra = [UNSPECIFIED] * (colours - basic) + [OPACITY] * opacity
    fields: list[tuple[int, list[int], bool]] = [  # tag, values, whether they are long
        (WIDTH, [w], True), (HEIGHT, [h], True), (BITS, [bits] * c, False),
        (COMPRESSION, [DEFLATE], False), (PHOTOMETRIC, [RGB if basic == 3 else GREY], False),
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
