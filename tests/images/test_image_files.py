"""Images in files: what is written is read back, and what cannot be is refused in words."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zlib
from contextlib import suppress
from itertools import product

import numpy as np
import pytest

from eigengap.exceptions import UnreadableError
from eigengap.images.files.files import read_image, write_image
from eigengap.images.files.tiff import DamagedError, read_tiff, tiff_bytes
from eigengap.runtime.warnings import captured

PIL = pytest.importorskip("PIL.Image")


def image(dtype, channels):
    rng = np.random.default_rng(3)
    shape = (13, 17) if channels == 1 else (13, 17, channels)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_lossless_formats_give_back_every_sample(tmp_path, dtype, suffix, channels):
    given = image(dtype, channels)
    path = tmp_path / f"a.{suffix}"
    write_image(path, given)
    again = read_image(path)
    assert again.dtype == given.dtype
    np.testing.assert_array_equal(again, given)


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64", ">f4", ">f8"])
def test_float_tiff_keeps_nan_and_every_bit(tmp_path, channels, dtype):
    given = image(dtype, channels)
    given[2, 3] = np.nan
    if given.dtype.itemsize == 8:
        given[0, 0] = 1e300
    write_image(tmp_path / "a.tiff", given)
    again = read_image(tmp_path / "a.tiff")
    assert again.dtype == given.dtype.newbyteorder("=")
    np.testing.assert_array_equal(again, given)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate"])
def test_sixteen_bit_grey_by_another_hand(tmp_path, compression):
    given = image("uint16", 1)
    PIL.fromarray(given).save(tmp_path / "a.tif", compression=compression)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), given)


@pytest.mark.parametrize(
    ("name", "dtype", "channels"),
    [("a.tif", "uint8", 3), ("a.tif", "uint16", 1), ("a.tif", "uint8", 4), ("a.png", "uint16", 1)],
)
def test_pillow_reads_what_we_write(tmp_path, name, dtype, channels):
    given = image(dtype, channels)
    write_image(tmp_path / name, given)
    with PIL.open(tmp_path / name) as opened:
        np.testing.assert_array_equal(np.asarray(opened), given)


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_pillow_sees_the_upper_byte_of_deep_colour(tmp_path, suffix, channels):
    given = image("uint16", channels)
    write_image(tmp_path / f"a.{suffix}", given)
    if (suffix, channels) == ("tif", 2):  # a kind that Pillow cannot read at all
        return
    with PIL.open(tmp_path / f"a.{suffix}") as opened:
        observed = np.asarray(opened.convert("LA") if channels == 2 else opened)
    np.testing.assert_array_equal(observed, given >> 8)


def pieces_of(plane, rows, tile):
    """Bytes of strips of so many rows, or of tiles of so many pixels a side."""
    h, w, _ = plane.shape
    if tile is None:
        return [plane[y : y + rows].tobytes() for y in range(0, h, rows)]
    padded = np.pad(plane, ((0, -h % tile), (0, -w % tile), (0, 0)))
    corners = product(range(0, h, tile), range(0, w, tile))
    return [padded[y : y + tile, x : x + tile].tobytes() for y, x in corners]


def packed_bits(piece):
    """PackBits without runs: whoever reads it has to unpack it all the same."""
    parts = [piece[k : k + 128] for k in range(0, len(piece), 128)]
    return b"".join(bytes([len(part) - 1]) + part for part in parts)


PACKED = {1: bytes, 8: zlib.compress, 32773: packed_bits}


def by_another_hand(
    samples, order="<", apart=False, rows=100, tile=None, how=1, pages=1, big=False, tags=None
):
    """A TIFF of samples (h, w, c) as other programs write it."""
    h, w, c = samples.shape
    ordered = samples.astype(samples.dtype.newbyteorder(order))
    planes = [ordered[..., k : k + 1] for k in range(c)] if apart else [ordered]
    pieces = [PACKED[how](piece) for plane in planes for piece in pieces_of(plane, rows, tile)]
    place, inside = ("Q", 8) if big else ("I", 4)
    first = 16 if big else 8
    places = [first + sum(map(len, pieces[:k])) for k in range(len(pieces))]
    where, lengths = (324, 325) if tile else (273, 279)
    number = {"u": 1, "i": 2, "f": 3}[samples.dtype.kind]
    fields = {
        256: [w], 257: [h], 258: [8 * samples.dtype.itemsize] * c, 259: [how],
        262: [2 if c == 3 else 1], where: places, 277: [c], 278: [rows],
        lengths: [len(piece) for piece in pieces], 284: [2 if apart else 1], 339: [number] * c,
    } | ({322: [tile], 323: [tile]} if tile else {}) | (tags or {})  # fmt: skip
    after, entries = first + sum(map(len, pieces)), b""
    values = b""
    for tag, some in sorted(fields.items()):
        data = struct.pack(f"{order}{len(some)}I", *some)
        if len(data) > inside:
            values, data = values + data, struct.pack(order + place, after + len(values))
        entries += struct.pack(f"{order}HH{place}", tag, 4, len(some)) + data.ljust(inside, b"\0")
    start = after + len(values)
    directory = struct.pack(order + ("Q" if big else "H"), len(fields)) + entries
    length = len(directory) + inside
    updated = [start + k * length for k in range(1, pages)] + [0]
    head = {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "H", 43 if big else 42)
    head += struct.pack(order + "HHQ", 8, 0, start) if big else struct.pack(order + "I", start)
    ends = [directory + struct.pack(order + place, one) for one in updated]
    return head + b"".join(pieces) + values + b"".join(ends)


LAYOUTS = {
    "plain": {},
    "big-endian": {"order": ">"},
    "strips": {"rows": 5},
    "planes": {"apart": True, "rows": 4},
    "tiles": {"tile": 16},
    "tiles of planes": {"tile": 16, "apart": True, "order": ">"},
    "deflated": {"how": 8, "rows": 5},
    "BigTIFF": {"big": True, "rows": 5},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("dtype", "channels"),
    [("float64", 1), ("float32", 3), ("float64", 3), ("float32", 5), ("uint8", 5), ("uint16", 3)],
)
def test_tiff_by_another_hand(tmp_path, layout, dtype, channels):
    given = image(dtype, channels)
    deep = given[..., None] if channels == 1 else given
    (tmp_path / "a.tif").write_bytes(by_another_hand(deep, **LAYOUTS[layout]))
    again = read_image(tmp_path / "a.tif")
    assert again.dtype == given.dtype
    np.testing.assert_array_equal(again, given)


def test_samples_of_other_lengths_are_read_where_a_image_holds_them(tmp_path):
    half, whole = image("float16", 3), image("uint16", 3)
    whole[0, 0] = 0
    (tmp_path / "a.tif").write_bytes(by_another_hand(half))
    assert read_image(tmp_path / "a.tif").dtype == np.float32
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), half)
    (tmp_path / "b.tif").write_bytes(by_another_hand(whole.astype(np.uint32)))
    np.testing.assert_array_equal(read_image(tmp_path / "b.tif"), whole)
    (tmp_path / "c.tif").write_bytes(by_another_hand(whole.astype(np.int32) - 3))
    with pytest.raises(UnreadableError, match=r"run from -3 to 65.*tifffile"):
        read_image(tmp_path / "c.tif")


@pytest.mark.parametrize(("mode", "predictor"), [("L", 2), ("RGB", 2), ("F", 3), ("F", 2)])
def test_differences_of_neighbours_are_summed(tmp_path, mode, predictor):
    """libtiff, through Pillow, writes them; ours is the other reader."""
    given = image("float32", 1) if mode == "F" else image("uint8", len(mode))
    how = {"compression": "tiff_adobe_deflate", "tiffinfo": {317: predictor}}
    PIL.fromarray(given).save(tmp_path / "a.tif", **how)
    data = (tmp_path / "a.tif").read_bytes()
    np.testing.assert_array_equal(read_tiff(data).pixels, given)


def test_what_a_tiff_holds_is_told_where_it_is_not_read(tmp_path):
    data = bytearray(tiff_bytes(image("float32", 3), opacity=False))
    (tmp_path / "cut.tif").write_bytes(data[:300] + data[-300:])
    at = data.rindex(struct.pack("<HHI", 259, 3, 1)) + 8
    data[at : at + 2] = struct.pack("<H", 34887)  # LERC
    (tmp_path / "lerc.tif").write_bytes(data)
    with pytest.raises(
        UnreadableError, match=r"17 x 13 pixels, 3 samples.*32 bits as floats.*3488"
    ):
        read_image(tmp_path / "lerc.tif")
    with pytest.raises(UnreadableError, match="damaged"):
        read_image(tmp_path / "cut.tif")


@pytest.mark.filterwarnings("error")  # also what Pillow says of what it finds
@pytest.mark.parametrize("kind", ["floats", "bytes", "palette"])
def test_a_damaged_tiff_is_a_image_or_a_sentence(tmp_path, kind):
    """Whatever bytes of its directory become."""
    rng = np.random.default_rng(0)
    data = by_another_hand(image("float32", 3), rows=5)
    if kind != "floats":
        small = PIL.fromarray(image("uint8", 3))
        (small if kind == "bytes" else small.quantize(4)).save(tmp_path / "a.tif")
        data = (tmp_path / "a.tif").read_bytes()
    fields = slice(8, 150) if kind != "floats" else slice(len(data) - 150, None)
    for _ in range(120):
        bad = bytearray(data)
        for at in rng.choice(np.arange(len(data))[fields], 2):
            bad[at] = rng.integers(256)
        (tmp_path / "a.tif").write_bytes(bad[: rng.integers(len(bad))] if at % 4 == 0 else bad)
        with captured(), suppress(UnreadableError):  # listening to our own
            read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("how", PACKED, ids=["plain", "deflated", "packbits"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_zero_is_black_whatever_a_tiff_says(tmp_path, dtype, how):
    """PackBits is read by Pillow, the others here: there is one rule."""
    given = image(dtype, 1)
    data = by_another_hand(given[..., None], how=how, tags={262: [0]})
    (tmp_path / "a.tif").write_bytes(data)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), np.iinfo(dtype).max - given)


@pytest.mark.parametrize("how", PACKED, ids=["plain", "deflated", "packbits"])
def test_floats_have_no_black(tmp_path, how):
    data = by_another_hand(image("float32", 1)[..., None], how=how, tags={262: [0]})
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.raises(UnreadableError, match=r"0 is white in it.*tifffile"):
        read_image(tmp_path / "a.tif")


def test_opacity_is_not_inverted(tmp_path):
    given = image("uint16", 2)
    (tmp_path / "a.tif").write_bytes(by_another_hand(given, tags={262: [0], 338: [2]}))
    again = read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(again[..., 0], 65535 - given[..., 0])
    np.testing.assert_array_equal(again[..., 1], given[..., 1])


@pytest.mark.parametrize(
    ("dtype", "channels", "how"),
    [("uint16", 4, 1), ("uint16", 4, 32773), ("uint16", 2, 8), ("uint8", 4, 8), ("float32", 4, 1)],
)
def test_colours_multiplied_by_opacity_are_divided_by_it(tmp_path, dtype, channels, how):
    """As near as they were rounded."""
    top = 1.0 if dtype == "float32" else np.iinfo(dtype).max
    colours = np.abs(image("float64", channels)) % 1.0
    opacity = np.linspace(0.2, 1.0, 13 * 17).reshape(13, 17, 1)
    observed = np.concatenate([colours[..., :-1], opacity], axis=2)
    stored = np.concatenate([observed[..., :-1] * opacity, opacity], axis=2) * top
    stored = (stored if top == 1.0 else np.rint(stored)).astype(dtype)
    stored[0, 0] = 0
    tags = {262: [2 if channels == 4 else 1], 338: [1]}
    (tmp_path / "a.tif").write_bytes(by_another_hand(stored, how=how, tags=tags))
    again = read_image(tmp_path / "a.tif")
    assert again.dtype == stored.dtype
    np.testing.assert_array_equal(again[..., -1], stored[..., -1])
    assert not again[0, 0].any()
    rounding = 1e-6 if top == 1.0 else 1.0 / 0.2 + 0.5  # of the colour and of the opacity
    error = again.astype(float) - observed * top
    assert np.abs(error.reshape(-1, channels)[1:]).max() <= rounding


def test_an_orientation_without_a_value_is_none(tmp_path):
    given = image("uint8", 3)
    (tmp_path / "a.tif").write_bytes(by_another_hand(given, tags={274: []}))
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), given)


def same_bytes(tags):
    """A TIFF of nothing but entries that all say: my values are the bytes of this file."""
    size = 8 + 2 + 12 * len(tags) + 4
    entries = [struct.pack("<HHII", tag, 1, size - 10, 8) for tag in tags]
    head = b"II*\0" + struct.pack("<IH", 8, len(tags))
    return head + b"".join(entries) + struct.pack("<I", 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tags", ["unknown", "known", "strips"])
def test_a_directory_that_repeats_itself_takes_no_memory(tmp_path, tags):
    chosen = {"unknown": range(1000, 2500), "known": range(256, 356), "strips": [273, 279] * 700}
    data = same_bytes(list(chosen[tags]))
    (tmp_path / "a.tif").write_bytes(data)
    with suppress(UnreadableError):  # what is imported only once
        read_image(tmp_path / "a.tif")
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableError, match=r"damaged|no image|not read here"):
            read_image(tmp_path / "a.tif")
        assert tracemalloc.get_traced_memory()[1] < 100 * len(data) + 1_000_000
    finally:
        tracemalloc.stop()


def test_tiles_are_not_larger_than_a_file_can_fill():
    """Every channel of one pixel is a tile of millions, and all tiles are the same few bytes."""
    one = {"tile": 4096, "how": 8}
    honest = by_another_hand(np.zeros((1, 1, 1), np.uint8), **one)
    assert read_tiff(honest).pixels.shape == (1, 1)
    tags = {258: [8] * 2, 277: [2], 284: [2], 324: [8] * 2, 325: [len(honest)] * 2, 339: [1] * 2}
    shared = by_another_hand(np.zeros((1, 1, 1), np.uint8), **one, tags=tags)
    rows = {257: [2**32 - 1], 278: [1]}
    tall = by_another_hand(np.zeros((1, 1, 1), np.uint8), tags=rows)
    for impossible in (shared, tall):
        with pytest.raises(DamagedError):
            read_tiff(impossible)


def test_what_does_not_fit_into_memory_is_told(tmp_path, monkeypatch):
    def full(data, most_pixels):
        raise MemoryError

    write_image(tmp_path / "a.tif", image("uint8", 3))
    monkeypatch.setattr("eigengap.images.files.files.read_tiff", full)
    with pytest.raises(UnreadableError, match="more memory than there is"):
        read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("kind", ["P6", "P3"])
@pytest.mark.parametrize("most", [65535, 1023])
def test_deep_ppm_keeps_its_depth(tmp_path, kind, most):
    """Of fewer bits than 16 it is spread over all of them, as grey is."""
    given = image("uint16", 3).astype(int) % (most + 1)
    as_text = " ".join(map(str, given.flat)).encode()
    data = given.astype(">u2").tobytes() if kind == "P6" else as_text
    (tmp_path / "a.ppm").write_bytes(f"{kind} # a comment\n17 13\n{most}\n".encode() + data)
    again = read_image(tmp_path / "a.ppm")
    assert again.dtype == np.uint16
    np.testing.assert_array_equal(again, np.rint(given / most * 65535))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_one_colour_of_a_png_may_be_observed_through(tmp_path, dtype, channels):
    given = image(dtype, channels)
    write_image(tmp_path / "a.png", given)
    data = (tmp_path / "a.png").read_bytes()
    body = b"tRNS" + struct.pack(f">{channels}H", *np.ravel(given[2, 3]).tolist())
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    (tmp_path / "a.png").write_bytes(data[:33] + chunk + data[33:])  # after the header
    again = read_image(tmp_path / "a.png")
    assert again.dtype == given.dtype
    deep = given.reshape(13, 17, channels)
    np.testing.assert_array_equal(again[..., :-1], deep)
    observed = (deep != deep[2, 3]).any(axis=2)
    np.testing.assert_array_equal(again[..., -1], observed * np.iinfo(dtype).max)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_what_a_masked_array_hides_is_not_written(tmp_path, name):
    given = np.ma.array(image("uint8", 3), mask=False)
    write_image(tmp_path / name, given)
    np.testing.assert_array_equal(read_image(tmp_path / name), given.data)
    given[2, 3] = np.ma.masked
    with pytest.raises(ValueError, match=r"3 of the 663 samples are hidden.*inpaint_image"):
        write_image(tmp_path / name, given, force=True)
    write_image(tmp_path / "b.tif", given.astype(np.float32))
    expected = given.astype(np.float32).filled(np.nan)
    np.testing.assert_array_equal(read_image(tmp_path / "b.tif"), expected)


@pytest.mark.parametrize("kind", ["floats", "bytes"])
def test_the_first_of_several_pages_is_read_with_a_warning(tmp_path, kind):
    given = image("float32" if kind == "floats" else "uint8", 3)
    (tmp_path / "a.tif").write_bytes(by_another_hand(given, pages=3))
    with pytest.warns(UserWarning, match="holds 3 images; the first is read"):
        again = read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(again, given)


@pytest.mark.parametrize("suffix", ["bmp", "gif", "webp", "ppm"])
def test_other_formats_are_read(tmp_path, suffix):
    given = np.zeros((6, 8, 3), np.uint8)
    given[:3] = (255, 0, 10)
    options = {"lossless": True} if suffix == "webp" else {}
    PIL.fromarray(given).save(tmp_path / f"a.{suffix}", **options)
    np.testing.assert_array_equal(read_image(tmp_path / f"a.{suffix}"), given)


def test_jpeg_is_near(tmp_path):
    ramp = np.add.outer(np.arange(32), np.arange(48)).astype(np.uint8)
    given = np.stack([ramp, ramp[::-1], ramp], axis=2)
    write_image(tmp_path / "a.jpg", given)
    again = read_image(tmp_path / "a.jpg")
    assert again.shape == given.shape
    assert np.abs(again.astype(int) - given).mean() < 2


def test_palette_becomes_its_colours(tmp_path):
    given = np.zeros((6, 8, 3), np.uint8)
    given[:3] = (255, 0, 10)
    given[3:] = (0, 200, 30)
    PIL.fromarray(given).quantize(4).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), given)


def test_black_and_white_becomes_grey(tmp_path):
    given = np.eye(8, dtype=bool)
    write_image(tmp_path / "a.png", given)
    PIL.fromarray(given).save(tmp_path / "b.png")
    for name in ("a.png", "b.png"):
        np.testing.assert_array_equal(read_image(tmp_path / name), given * np.uint8(255))


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_of_the_camera_is_obeyed(tmp_path, orientation, name):
    from PIL import ImageOps

    given = PIL.fromarray(image("uint8", 3))
    exif = PIL.Exif()
    exif[274] = orientation
    given.save(tmp_path / name, exif=exif)
    with PIL.open(tmp_path / name) as opened:
        expected = np.asarray(ImageOps.exif_transpose(opened))
    np.testing.assert_array_equal(read_image(tmp_path / name), expected)


def test_a_file_is_not_replaced_unless_asked(tmp_path):
    path = tmp_path / "a.png"
    write_image(path, image("uint8", 3))
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="force=True"):
        write_image(path, image("uint8", 1))
    assert path.read_bytes() == before
    write_image(path, image("uint8", 1), force=True)
    assert read_image(path).ndim == 2
    assert [one.name for one in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("a.gif", np.zeros((4, 4), np.uint8), "ends in none of"),
        ("a.png", np.zeros((4, 4)), r"\.tif"),
        ("a.jpg", np.zeros((4, 4), np.uint16), "8 bits"),
        ("a.jpg", np.zeros((4, 4, 4), np.uint8), "opacity"),
        ("a.png", np.zeros(4, np.uint8), "no image"),
        ("a.png", np.zeros((4, 4, 5), np.uint8), "up to 4 channels, and there are 5"),
        ("a.png", np.zeros((0, 4), np.uint8), "no pixels"),
        ("a.png", np.zeros((4, 4), np.int64), "uint8, uint16"),
    ],
    ids=["suffix", "float-png", "deep-jpeg", "alpha-jpeg", "1-d", "5-channels", "empty", "int64"],
)
def test_what_a_format_cannot_hold_is_refused(tmp_path, name, array, words):
    with pytest.raises(ValueError, match=words):
        write_image(tmp_path / name, array)
    assert not list(tmp_path.iterdir())


def test_what_is_no_image_is_refused(tmp_path):
    (tmp_path / "a.png").write_text("x,y\n1,2\n")
    with pytest.raises(UnreadableError, match="no image"):
        read_image(tmp_path / "a.png")
    buffer = io.BytesIO()
    PIL.fromarray(image("uint8", 3)).save(buffer, "PNG")
    (tmp_path / "b.png").write_bytes(buffer.getvalue()[:200])
    with pytest.raises(UnreadableError, match="damaged"):
        read_image(tmp_path / "b.png")
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "c.png")
    with pytest.raises(IsADirectoryError):
        read_image(tmp_path)


def test_the_tilde_is_the_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write_image("~/a.png", image("uint8", 1))
    np.testing.assert_array_equal(read_image("~/a.png"), image("uint8", 1))


def test_where_nothing_can_be_written_is_told_by_its_own_name(tmp_path):
    """And not by that of the part of a file that is written first."""
    with pytest.raises(FileNotFoundError, match=r"no folder .*no to write a.png to"):
        write_image(tmp_path / "no" / "a.png", image("uint8", 1))
    (tmp_path / "b.png").mkdir()
    with pytest.raises(OSError, match=r"b\.png") as told:
        write_image(tmp_path / "b.png", image("uint8", 1), force=True)
    assert ".part" not in str(told.value)
    (tmp_path / "c.png").symlink_to(tmp_path / "d.png")
    (tmp_path / "d.png").symlink_to(tmp_path / "c.png")
    for force in (False, True):
        with pytest.raises(OSError, match=r"c\.png"):
            write_image(tmp_path / "c.png", image("uint8", 1), force=force)
    assert os.path.islink(tmp_path / "c.png")
    (tmp_path / "e.png").symlink_to(tmp_path / "f.png")  # a link to what is not there yet is none
    write_image(tmp_path / "e.png", image("uint8", 1))
    assert (tmp_path / "f.png").is_file()
