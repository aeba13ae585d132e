"""Pictures in files: what is written is read back, and what cannot be is refused in words."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from eigengap import UnreadableError
from eigengap.images.files import read_image, write_image

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


@pytest.mark.parametrize("channels", [1, 3])
def test_float_tiff_keeps_nan(tmp_path, channels):
    given = picture("float32", channels)
    given[2, 3] = np.nan
    write_image(tmp_path / "a.tiff", given)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tiff"), given)


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


def big_endian_tiff(samples):
    """A TIFF as another program may write it: samples (h, w, 3) of 16 bits, not compressed."""
    h, w, _ = samples.shape
    strip = samples.astype(">u2").tobytes()
    fields = [(256, 1, w), (257, 1, h), (258, 3, 0), (259, 1, 1), (262, 1, 2), (273, 1, 8),
              (277, 1, 3), (278, 1, h), (279, 1, len(strip)), (284, 1, 1)]  # fmt: skip
    start = 8 + len(strip)
    after = start + 2 + 12 * len(fields) + 4
    entries = b""
    for tag, count, value in fields:
        if tag == 258:
            entries += struct.pack(">HHII", tag, 3, count, after)
        else:
            entries += struct.pack(">HHII", tag, 4, count, value)
    head = b"MM\0*" + struct.pack(">I", start)
    directory = struct.pack(">H", len(fields)) + entries + struct.pack(">I", 0)
    return head + strip + directory + struct.pack(">3H", 16, 16, 16)


def test_deep_colour_by_another_hand(tmp_path):
    given = picture("uint16", 3)
    (tmp_path / "a.tif").write_bytes(big_endian_tiff(given))
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), given)


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


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_of_the_camera_is_obeyed(tmp_path, orientation):
    from PIL import ImageOps

    given = PIL.fromarray(picture("uint8", 3))
    exif = PIL.Exif()
    exif[274] = orientation
    given.save(tmp_path / "a.png", exif=exif)
    with PIL.open(tmp_path / "a.png") as opened:
        expected = np.asarray(ImageOps.exif_transpose(opened))
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), expected)


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
        ("a.png", np.zeros((4, 4, 5), np.uint8), "no picture"),
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
