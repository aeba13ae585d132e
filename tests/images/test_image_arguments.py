"""What `denoise_image` and `inpaint_image` take for an image, and what they refuse in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigengap.images import denoise_image, inpaint_image
from eigengap.images.arguments import settings
from eigengap.images.files.comparing import before_and_after, shades
from eigengap.images.image import Restored, mixture_of, standardised

BOTH = pytest.mark.parametrize("restore", [denoise_image, inpaint_image])


def waves(h=20, w=24):
    y, x = np.mgrid[:h, :w]
    noise = np.random.default_rng(0).normal(0.0, 10.0, (h, w))
    return 120.0 + 70.0 * np.sin(x / 5.0) * np.cos(y / 6.0) + noise


def hidden(shape, share=0.3):
    return np.random.default_rng(1).random(shape) < share


# Units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("restore", "unit"), [(denoise_image, 1e-150), (denoise_image, 1e155), (inpaint_image, 1e155)]
)
def test_no_unit_is_too_small_or_too_large(restore, unit):
    """Standard deviations too are those of the same image in another unit."""
    image, sigma = waves(12, 14), 10.0
    if restore is inpaint_image:
        image[hidden(image.shape)], sigma = np.nan, 0.0
    how = {"patch": 3, "n_mixture": 1, "random_state": 0}
    expected = restore(image, sigma=sigma, **how)
    found = restore(image * unit, sigma=sigma * unit, **how)
    np.testing.assert_allclose(found.image / unit, expected.image, rtol=1e-9)
    np.testing.assert_allclose(found.sd / unit, expected.sd, rtol=1e-5)
    assert found.noise_sd == pytest.approx(sigma * unit)


@pytest.mark.parametrize("unit", [2.0**-1020, 1e-150, 1e-40, 1e-20, 1.0, 1e20, 1e40, 1e155, 1e305])
def test_what_is_worked_on_has_no_unit_and_gets_it_back(unit):
    image = standardised(waves() * unit, None, None)
    np.testing.assert_allclose(image.values, standardised(waves(), None, None).values, rtol=1e-9)
    np.testing.assert_allclose(image.restored(image.values), waves() * unit, rtol=1e-12)
    assert image.unit == pytest.approx(np.std(waves()) * unit)
    sd = image.sd_in_units(np.full((20, 24, 1), 1e-6))
    assert sd.dtype == (np.float32 if 1e-30 < unit < 1e30 else np.float64)
    np.testing.assert_allclose(sd, 1e-6 * image.unit, rtol=1e-6)


def test_the_ends_of_a_type_are_not_crossed():
    """What is expected beyond the largest float is the largest."""
    for dtype in (np.float32, np.float64):
        largest = np.finfo(dtype).max
        image = np.where(waves() > 120.0, largest, -largest).astype(dtype)
        scene = standardised(image, None, None)
        restored = scene.restored(2.0 * scene.values)
        assert restored.dtype == dtype
        np.testing.assert_array_equal(restored, image)
        assert np.isfinite(scene.sd_in_units(np.full(scene.shape, 2.0))).all()


def test_the_smallest_difference_is_not_flat():
    image = np.where(waves() > 120.0, 5e-324, 0.0)
    scene = standardised(image, None, None)
    assert not scene.is_flat
    assert scene.unit > 0.0
    np.testing.assert_array_equal(scene.restored(scene.values), image)


# What is no image --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.png", b"a.png", Path("a.png")], ids=["str", "bytes", "path"])
@BOTH
def test_a_name_is_not_a_image(restore, name):
    with pytest.raises(TypeError, match="read_image"):
        restore(name)


@pytest.mark.parametrize("channels", [1, 3, 4])
@BOTH
def test_channels_first_are_refused_with_the_way_out(restore, channels):
    image = np.moveaxis(np.stack([waves()] * channels, axis=2), 2, 0)
    with pytest.raises(ValueError, match=r"np\.moveaxis\(image, 0, 2\)"):
        restore(image)
    assert standardised(np.moveaxis(image, 0, 2), None, False).shape == (20, 24, channels)


def test_many_channels_and_few_rows_are_each_a_image():
    assert standardised(np.stack([waves()] * 40, axis=2), None, None).shape == (20, 24, 40)
    assert standardised(np.stack([waves(3)] * 3, axis=2), None, None).shape == (3, 24, 3)


@pytest.mark.parametrize(
    ("shape", "places", "words"),
    [
        ((9, 9), [(5, 4)], r"row 5, column 4, counted from 0: put"),
        ((9, 9), [(5, 4), (6, 1)], r"row 5, column 4, counted from 0, and in 1 more place: put"),
        (
            (9, 9, 3),
            [(5, 4, 2), (6, 1, 0), (6, 1, 1)],
            r"row 5, column 4, channel 2, counted from 0, and in 2 more places: put",
        ),
    ],
    ids=["one", "two", "three"],
)
def test_infinities_are_counted_and_told_where(shape, places, words):
    image = np.zeros(shape)
    for place in places:
        image[place] = -np.inf
    with pytest.raises(ValueError, match=words):
        denoise_image(image)


def test_a_mask_is_spoken_of_only_where_there_is_one():
    with pytest.raises(ValueError, match="nothing to learn from") as told:
        denoise_image(np.full((9, 9), np.nan))
    assert "mask" not in str(told.value)


# Masks and other arguments -------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(20, 24), (20, 24, 1), (20, 24, 3)], ids=str)
def test_a_masked_array_and_a_mask_hide_together(shape):
    image = waves().reshape(20, 24, *(1,) * (len(shape) - 2)) + np.zeros(shape)
    own, given = hidden(shape, 0.2), np.random.default_rng(2).random((20, 24)) < 0.2
    both = own | given.reshape(20, 24, *(1,) * (len(shape) - 2))
    scene = standardised(np.ma.array(image, mask=own), given, None)
    np.testing.assert_array_equal(scene.missing.reshape(shape), both)
    expected = standardised(image, both, None)
    np.testing.assert_array_equal(scene.values, expected.values)


def test_opacity_that_a_masked_array_hides_is_as_it_was():
    image = np.dstack([waves()] * 3 + [np.full((20, 24), 200.0)])
    some = np.ma.array(image, mask=False)
    some[3, 3] = some[5, 7, 3] = np.ma.masked
    scene = standardised(some, None, None)
    assert scene.missing.sum() == 3
    back = scene.restored(np.zeros(scene.shape), keep_observed=True)
    np.testing.assert_array_equal(back[..., 3], image[..., 3])
    observed = ~scene.missing
    np.testing.assert_array_equal(back[..., :3][observed], image[..., :3][observed])


@pytest.mark.parametrize("seed", [-1, "x", 1.5, True], ids=str)
@BOTH
def test_what_is_no_seed_is_refused(restore, seed):
    with pytest.raises(ValueError, match=r"random_state is .*whole number from 0 up, a Generator"):
        restore(waves(), random_state=seed)


@pytest.mark.parametrize("opacity", ["yes", 1, 0.0], ids=str)
@BOTH
def test_opacity_is_true_or_false(restore, opacity):
    with pytest.raises(ValueError, match="opacity is"):
        restore(waves(), opacity=opacity)


def test_seeds_of_every_kind_are_taken():
    how = (4, 1, "mixture", 2, "auto")
    for make in (lambda: 3, lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)):
        a, b = (settings((9, 9, 1), *how, make()).rng.integers(2**40) for _ in range(2))
        assert a == b


# What is shown -------------------------------------------------------------------------------


def restored_of(image, sd):
    return Restored(image, sd, 1.0, "PPCA", 1, (1,), 4, 1)


def test_one_is_not_many():
    assert mixture_of(1, "Gaussian") == "Gaussian"
    assert mixture_of(2, "PPCA") == "mixture of 2 PPCAs"
    one = Restored(np.zeros((2, 2)), np.zeros((2, 2)), 1.0, "PPCA", 1, (1,), 4, 1, n_missing=1)
    assert "1 entry imputed" in repr(one)


def test_white_is_the_largest_standard_deviation():
    sd = np.array([[0.0, 1.0], [2.0, 4.0]])
    grey, white = shades(sd)
    assert white == 4.0
    np.testing.assert_array_equal(grey, [[0, 64], [128, 255]])
    assert shades(np.zeros((2, 2)))[0].max() == 0
    assert shades(sd * 1e300)[1] == 4e300


@pytest.mark.parametrize("width", [40, 100, 400])
def test_captions_are_whole_at_any_width(width, monkeypatch):
    """Of sixteen bits what white stands for has more digits, and narrow panels have more lines."""
    ImageDraw = pytest.importorskip("PIL.ImageDraw")
    drawn, panel = [], 120 if width == 40 else width

    def heard(pen, place, text, **how):
        drawn.append(text)
        del how["fill"]
        left, _, right, bottom = pen.multiline_textbbox(place, text, **how)
        assert right - left <= panel
        assert bottom <= pen.im.size[1]

    monkeypatch.setattr(ImageDraw.ImageDraw, "multiline_text", heard)
    image = np.full((60, width), 30_000, np.uint16)
    sheet = before_and_after(image, restored_of(image, np.full(image.shape, 2073.0)))
    assert sheet.shape[1] == 3 * panel + 4 * 8
    joined = ["".join(text.split()) for text in drawn]
    assert joined == ["asitwas", "restored", "standarddeviation,white=2073levels"]


@pytest.mark.parametrize("shape", [(8, 8), (30, 50), (2, 63)], ids=str)
def test_pixels_of_tiny_images_are_squares(shape):
    """So that a caption has room; all of them of one size."""
    pytest.importorskip("PIL")
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    sheet = before_and_after(image, restored_of(image, np.ones(shape)))
    h, w = shape
    k = (sheet.shape[1] - 4 * 8) // (3 * w)
    assert 120 <= k * w < 120 + w
    np.testing.assert_array_equal(sheet[8 : 8 + k * h, 8 : 8 + k * w, 0], np.kron(image, one(k)))


def one(k):
    return np.ones((k, k), np.uint8)


@pytest.mark.parametrize(
    ("share", "caption"),
    [
        (0.0, "as it was"),
        (0.2, "as it was, missing in magenta"),
        (0.8, "as it was, missing in black"),
    ],
    ids=["none", "few", "most"],
)
def test_the_colour_of_missing_is_told(share, caption, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "eigengap.images.files.comparing.side_by_side", lambda panels: drawn.extend(panels)
    )
    image = np.full((40, 200), 7, np.uint8)
    mask = hidden(image.shape, share)
    before_and_after(image, restored_of(image, np.ones(image.shape)), mask=mask)
    name, panel = drawn[0]
    assert name == caption
    colour = (255, 0, 200) if share == 0.2 else (0, 0, 0)
    np.testing.assert_array_equal(np.all(panel == colour, axis=2), mask)


@pytest.mark.parametrize("unit", [1e-150, 1e305])
def test_images_of_any_unit_are_shown(unit):
    pytest.importorskip("PIL")
    image = waves(20, 70) * unit
    sheet = before_and_after(image, restored_of(image, np.ones(image.shape) * unit))
    shown = sheet[8:28, 8:78, 0]
    assert (shown.min(), shown.max()) == (0, 255)


def test_missing_in_what_is_taken_for_opacity_are_not_passed_over() -> None:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:30, :30]
    two = np.dstack([np.sin(x / 5) + y / 30, np.cos(y / 7)]) + rng.normal(0, 0.1, (30, 30, 2))
    two[10:13, 10:13] = np.nan
    with pytest.raises(ValueError, match=r"taken to be opacity.*9 entries.*opacity=False"):
        inpaint_image(two, random_state=0)
    both = inpaint_image(two, opacity=False, random_state=0)
    assert both.n_missing == 18
    assert np.isfinite(both.image).all()
    left = inpaint_image(two, opacity=True, random_state=0)
    assert left.n_missing == 9
    np.testing.assert_array_equal(np.isnan(left.sd[..., 1]), np.isnan(two[..., 1]))
    observed = np.nan_to_num(two)
    mask = np.zeros(observed.shape, bool)
    mask[3:5, 3:5, 1] = True
    with pytest.raises(ValueError, match=r"4 entries of it are missing"):
        inpaint_image(observed, mask, random_state=0)
    mask[3:5, 3:5] = True  # whole pixels: opacity is known there, and stays
    whole = inpaint_image(observed, mask, random_state=0)
    np.testing.assert_array_equal(whole.image[..., 1], observed[..., 1])


def test_a_restored_image_is_used_like_an_array() -> None:
    image = np.random.default_rng(0).normal(10.0, 1.0, (24, 24))
    restored = denoise_image(image, random_state=0)
    for found, expected in (
        (restored - 1.0, restored.image - 1.0),
        (2.0 * restored, 2.0 * restored.image),
        (restored - image, restored.image - image),
        (image - restored, image - restored.image),
        (restored - restored, np.zeros_like(image)),
        (restored[3], restored.image[3]),
        (np.sqrt(restored), np.sqrt(restored.image)),
    ):
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected)
    assert np.mean(restored) == restored.image.mean()
