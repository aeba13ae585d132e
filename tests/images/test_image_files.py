"""Pictures in files: what is written is read back, and what cannot be is refused in words."""

from __future__ import annotations

import io
import os
import struct
import zlib
from contextlib import suppress
from itertools import product

import numpy as np
import pytest

from eigengap import UnreadableError
from eigengap.images.files import read_image, write_image
from eigengap.images.tiff import read_tiff, tiff_bytes

PIL = pytest.importorskip("PIL.Image")


def picture(dtype, channels):
    rng = np.random.default_rng(3)
    shape = (13, 17) if channels == 1 else (13, 17, channels)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_lossless_formats_give_back_every_sample(tmp_path, dtype, suffix, channels):
    given = picture(dtype, channels)
    path = tmp_path / f"a.{suffix}"
    write_image(path, given)
    again = read_image(path)
    assert again.dtype == given.dtype
    np.testing.assert_array_equal(again, given)


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64", ">f4", ">f8"])
def test_float_tiff_keeps_nan_and_every_bit(tmp_path, channels, dtype):
    given = picture(dtype, channels)
    given[2, 3] = np.nan
    if given.dtype.itemsize == 8:
        given[0, 0] = 1e300
    write_image(tmp_path / "a.tiff", given)
    again = read_image(tmp_path / "a.tiff")
    assert again.dtype == given.dtype.newbyteorder("=")
    np.testing.assert_array_equal(again, given)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate"])
def test_sixteen_bit_grey_by_another_hand(tmp_path, compression):
    given = picture("uint16", 1)
    PIL.fromarray(given).save(tmp_path / "a.tif", compression=compression)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), given)


@pytest.mark.parametrize(
    ("name", "dtype", "channels"),
    [("a.tif", "uint8", 3), ("a.tif", "uint16", 1), ("a.tif", "uint8", 4), ("a.png", "uint16", 1)],
)
def test_pillow_reads_what_we_write(tmp_path, name, dtype, channels):
    given = picture(dtype, channels)
    write_image(tmp_path / name, given)
    with PIL.open(tmp_path / name) as opened:
        np.testing.assert_array_equal(np.asarray(opened), given)


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_pillow_sees_the_upper_byte_of_deep_colour(tmp_path, suffix, channels):
    given = picture("uint16", channels)
    write_image(tmp_path / f"a.{suffix}", given)
    if (suffix, channels) == ("tif", 2):  # a kind that Pillow cannot read at all
        return
    with PIL.open(tmp_path / f"a.{suffix}") as opened:
        seen = np.asarray(opened.convert("LA") if channels == 2 else opened)
    np.testing.assert_array_equal(seen, given >> 8)


def pieces_of(plane, rows, tile):
    """Bytes of strips of so many rows, or of tiles of so many pixels a side."""
    h, w, _ = plane.shape
    if tile is None:
        return [plane[y : y + rows].tobytes() for y in range(0, h, rows)]
    padded = np.pad(plane, ((0, -h % tile), (0, -w % tile), (0, 0)))
    corners = product(range(0, h, tile), range(0, w, tile))
    return [padded[y : y + tile, x : x + tile].tobytes() for y, x in corners]


def by_another_hand(
    samples, order="<", apart=False, rows=100, tile=None, deflated=False, pages=1, big=False
):
    """A TIFF of samples (h, w, c) as other programs write it."""
    h, w, c = samples.shape
    ordered = samples.astype(samples.dtype.newbyteorder(order))
    planes = [ordered[..., k : k + 1] for k in range(c)] if apart else [ordered]
    pieces = [piece for plane in planes for piece in pieces_of(plane, rows, tile)]
    if deflated:
        pieces = [zlib.compress(piece) for piece in pieces]
    place, inside = ("Q", 8) if big else ("I", 4)
    first = 16 if big else 8
    places = [first + sum(map(len, pieces[:k])) for k in range(len(pieces))]
    where, lengths = (324, 325) if tile else (273, 279)
    number = {"u": 1, "i": 2, "f": 3}[samples.dtype.kind]
    fields = {
        256: [w], 257: [h], 258: [8 * samples.dtype.itemsize] * c, 259: [8 if deflated else 1],
        262: [2 if c == 3 else 1], where: places, 277: [c], 278: [rows],
        lengths: [len(piece) for piece in pieces], 284: [2 if apart else 1], 339: [number] * c,
    } | ({322: [tile], 323: [tile]} if tile else {})  # fmt: skip
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
    following = [start + k * length for k in range(1, pages)] + [0]
    head = {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "H", 43 if big else 42)
    head += struct.pack(order + "HHQ", 8, 0, start) if big else struct.pack(order + "I", start)
    ends = [directory + struct.pack(order + place, one) for one in following]
    return head + b"".join(pieces) + values + b"".join(ends)


LAYOUTS = {
    "plain": {},
    "big-endian": {"order": ">"},
    "strips": {"rows": 5},
    "planes": {"apart": True, "rows": 4},
    "tiles": {"tile": 16},
    "tiles of planes": {"tile": 16, "apart": True, "order": ">"},
    "deflated": {"deflated": True, "rows": 5},
    "BigTIFF": {"big": True, "rows": 5},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("dtype", "channels"),
    [("float64", 1), ("float32", 3), ("float64", 3), ("float32", 5), ("uint8", 5), ("uint16", 3)],
)
def test_tiff_by_another_hand(tmp_path, layout, dtype, channels):
    given = picture(dtype, channels)
    deep = given[..., None] if channels == 1 else given
    (tmp_path / "a.tif").write_bytes(by_another_hand(deep, **LAYOUTS[layout]))
    again = read_image(tmp_path / "a.tif")
    assert again.dtype == given.dtype
    np.testing.assert_array_equal(again, given)


def test_samples_of_other_lengths_are_read_where_a_picture_holds_them(tmp_path):
    half, whole = picture("float16", 3), picture("uint16", 3)
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
    given = picture("float32", 1) if mode == "F" else picture("uint8", len(mode))
    how = {"compression": "tiff_adobe_deflate", "tiffinfo": {317: predictor}}
    PIL.fromarray(given).save(tmp_path / "a.tif", **how)
    data = (tmp_path / "a.tif").read_bytes()
    np.testing.assert_array_equal(read_tiff(data).pixels, given)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")  # Pillow's
def test_what_a_tiff_holds_is_told_where_it_is_not_read(tmp_path):
    data = bytearray(tiff_bytes(picture("float32", 3)))
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


@pytest.mark.filterwarnings("ignore")  # Pillow's, of what it finds
@pytest.mark.parametrize("kind", ["floats", "bytes", "palette"])
def test_a_damaged_tiff_is_a_picture_or_a_sentence(tmp_path, kind):
    """Whatever bytes of its directory become."""
    rng = np.random.default_rng(0)
    data = by_another_hand(picture("float32", 3), rows=5)
    if kind != "floats":
        small = PIL.fromarray(picture("uint8", 3))
        (small if kind == "bytes" else small.quantize(4)).save(tmp_path / "a.tif")
        data = (tmp_path / "a.tif").read_bytes()
    fields = slice(8, 150) if kind != "floats" else slice(len(data) - 150, None)
    for _ in range(120):
        bad = bytearray(data)
        for at in rng.choice(np.arange(len(data))[fields], 2):
            bad[at] = rng.integers(256)
        (tmp_path / "a.tif").write_bytes(bad)
        with suppress(UnreadableError):
            read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("kind", ["floats", "bytes"])
def test_the_first_of_several_pages_is_read_with_a_warning(tmp_path, kind):
    given = picture("float32" if kind == "floats" else "uint8", 3)
    (tmp_path / "a.tif").write_bytes(by_another_hand(given, pages=3))
    with pytest.warns(UserWarning, match="holds 3 pictures; the first is read"):
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

    given = PIL.fromarray(picture("uint8", 3))
    exif = PIL.Exif()
    exif[274] = orientation
    given.save(tmp_path / name, exif=exif)
    with PIL.open(tmp_path / name) as opened:
        expected = np.asarray(ImageOps.exif_transpose(opened))
    np.testing.assert_array_equal(read_image(tmp_path / name), expected)


def test_a_file_is_not_replaced_unless_asked(tmp_path):
    path = tmp_path / "a.png"
    write_image(path, picture("uint8", 3))
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="force=True"):
        write_image(path, picture("uint8", 1))
    assert path.read_bytes() == before
    write_image(path, picture("uint8", 1), force=True)
    assert read_image(path).ndim == 2
    assert [one.name for one in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("a.gif", np.zeros((4, 4), np.uint8), "ends in none of"),
        ("a.png", np.zeros((4, 4)), r"\.tif"),
        ("a.jpg", np.zeros((4, 4), np.uint16), "8 bits"),
        ("a.jpg", np.zeros((4, 4, 4), np.uint8), "opacity"),
        ("a.png", np.zeros(4, np.uint8), "no picture"),
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


def test_what_is_no_picture_is_refused(tmp_path):
    (tmp_path / "a.png").write_text("x,y\n1,2\n")
    with pytest.raises(UnreadableError, match="no picture"):
        read_image(tmp_path / "a.png")
    buffer = io.BytesIO()
    PIL.fromarray(picture("uint8", 3)).save(buffer, "PNG")
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
    write_image("~/a.png", picture("uint8", 1))
    np.testing.assert_array_equal(read_image("~/a.png"), picture("uint8", 1))


def test_where_nothing_can_be_written_is_told_by_its_own_name(tmp_path):
    """And not by that of the part of a file that is written first."""
    with pytest.raises(FileNotFoundError, match=r"no folder .*no to write a.png to"):
        write_image(tmp_path / "no" / "a.png", picture("uint8", 1))
    (tmp_path / "b.png").mkdir()
    with pytest.raises(OSError, match=r"b\.png") as told:
        write_image(tmp_path / "b.png", picture("uint8", 1), force=True)
    assert ".part" not in str(told.value)
    (tmp_path / "c.png").symlink_to(tmp_path / "d.png")
    (tmp_path / "d.png").symlink_to(tmp_path / "c.png")
    for force in (False, True):
        with pytest.raises(OSError, match=r"c\.png"):
            write_image(tmp_path / "c.png", picture("uint8", 1), force=force)
    assert os.path.islink(tmp_path / "c.png")
    (tmp_path / "e.png").symlink_to(tmp_path / "f.png")  # a link to what is not there yet is none
    write_image(tmp_path / "e.png", picture("uint8", 1))
    assert (tmp_path / "f.png").is_file()
