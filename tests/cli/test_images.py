"""`denoise` and `inpaint`: images in and out, what is kept to the last bit, what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.cli.running import call

from eigengap.images import denoise_image, inpaint_image
from eigengap.images.files.comparing import before_and_after
from eigengap.images.files.files import read_image, write_image

H, W, SIGMA = 28, 32, 12.0
QUICK = ("-m", "ppca", "-k", "6")


def clean(channels: int = 1) -> np.ndarray:
    """Waves, of 8 bits."""
    y, x = np.mgrid[:H, :W]
    waves = [120 + 70 * np.sin(x / (5.0 + k)) * np.cos(y / (6.0 - k)) for k in range(channels)]
    return np.rint(waves[0] if channels == 1 else np.stack(waves, axis=2)).astype(np.uint8)


def in_panel(sheet: np.ndarray, k: int) -> np.ndarray:
    """The k-th image of a sheet, whose pixels are squares of 4 x 4."""
    left = 8 + k * (4 * W + 8)
    return sheet[8 : 8 + 4 * H : 4, left : left + 4 * W : 4, 0]


def noisy(channels: int = 1) -> np.ndarray:
    image = clean(channels)
    noise = np.random.default_rng(0).normal(0.0, SIGMA, image.shape)
    return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def facts(*arguments: str) -> dict[str, Any]:
    ran = call(*arguments, "--json", "-q")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    return json.loads(ran.out)


# denoise -------------------------------------------------------------------------------------


def test_denoise_writes_what_the_library_makes(place: Path) -> None:
    """Beside the image, under its name; noise is learned, and nearer the truth is what comes."""
    write_image("photo.png", noisy())
    found = facts("denoise", "photo.png")
    expected = denoise_image(noisy(), random_state=0)
    np.testing.assert_array_equal(read_image("photo.denoised.png"), expected.image)
    assert found["noise_sd"] == pytest.approx(expected.noise_sd)
    assert found["noise_sd"] == pytest.approx(SIGMA, rel=0.15)
    assert (found["wrote"], found["width"], found["height"]) == ("photo.denoised.png", W, H)
    before, after = (np.std(one - clean().astype(float)) for one in (noisy(), expected.image))
    assert after < 0.5 * before
    given = call("denoise", "photo.png", "--sigma", "12", "-o", "given.png", *QUICK)
    assert "noise of standard deviation 12 (given)" in given.err


@pytest.mark.parametrize(
    "kind", ["16 bits", "colour", "opacity", "float32", "float64", "5 channels", "jpeg"]
)
def test_images_keep_their_kind(place: Path, kind: str) -> None:
    """Depth, channels, opacity to the last bit; some need TIFF, and JPEG is read."""
    image = noisy({"colour": 3, "opacity": 3, "jpeg": 3, "5 channels": 5}.get(kind, 1))
    needs_tiff = kind in ("float32", "float64", "5 channels")
    name = "p.tif" if needs_tiff else "p.jpg" if kind == "jpeg" else "p.png"
    if kind == "16 bits":
        image = image.astype(np.uint16) * np.uint16(257)
    elif kind in ("float32", "float64"):
        image = (image / 255.0).astype(kind)
    elif kind == "opacity":
        observed = np.random.default_rng(0).integers(0, 256, (H, W, 1)).astype(np.uint8)
        image = np.concatenate([image, observed], axis=2)
    write_image(name, image)
    found = facts("denoise", name, *QUICK)
    assert found["wrote"] == ("p.denoised.tif" if needs_tiff else "p.denoised.png")
    written = read_image(found["wrote"])
    assert (written.dtype, written.shape) == (image.dtype, image.shape)
    if kind == "opacity":
        np.testing.assert_array_equal(written[..., 3], image[..., 3])
    assert not np.array_equal(written, image)


def test_maps_and_comparisons(place: Path) -> None:
    """Standard deviations are exact in TIFF and shades in PNG; before and after stand side by
    side; everything is told."""
    write_image("p.png", noisy())
    ran = call("denoise", "p.png", *QUICK, "--sd", "sd.tif", "--compare")
    assert ran.code == 0, ran.err
    assert "p.denoised.compared.png" in ran.err
    assert ": as it was, restored, standard deviation" in ran.err
    expected = denoise_image(noisy(), model="ppca", n_components=6, random_state=0)
    np.testing.assert_array_equal(read_image("sd.tif"), expected.sd)
    low, high = (f"{one:.4g}" for one in (expected.sd.min(), expected.sd.max()))
    assert f": standard deviations, {low} to {high}" in ran.err
    both = read_image("p.denoised.compared.png")
    np.testing.assert_array_equal(both, before_and_after(noisy(), expected))
    np.testing.assert_array_equal(in_panel(both, 0), noisy())
    ran = call("denoise", "p.png", *QUICK, "--sd", "sd.png", "-o", "q.png")
    shades = read_image("sd.png")
    assert shades.max() == 255
    np.testing.assert_allclose(shades / 255.0, expected.sd / expected.sd.max(), atol=0.003)
    np.testing.assert_array_equal(in_panel(both, 2), shades)
    assert "black is 0 and white" in ran.err


def test_comparisons_of_two_commands_have_two_names(place: Path) -> None:
    write_image("p.png", noisy())
    for command in (("denoise", "p.png"), ("inpaint", "p.png", "--mask", "random:0.3")):
        assert call(*command, *QUICK, "--compare").code == 0
    names = {path.name for path in place.iterdir()}
    assert {"p.denoised.compared.png", "p.inpainted.compared.png"} < names


def test_what_is_missing_of_a_noisy_image_and_what_is_kept_are_told(place: Path) -> None:
    image = noisy().astype(np.float32)
    image[10:14, 10:17] = np.nan
    write_image("p.tif", image)
    write_image("q.png", np.dstack([noisy(), np.full((H, W), 200, np.uint8)]))
    ran = call("denoise", "p.tif", *QUICK)
    assert f"p.tif, {W} x {H} pixels, grey, floats; 3.12 % of its samples are missing" in ran.err
    assert "Imputed 28 samples\n" in ran.err
    ran = call("denoise", "q.png", *QUICK)
    assert f"q.png, {W} x {H} pixels, grey, 8 bits, opacity kept as it is\n" in ran.err
    assert "Imputed" not in ran.err
    assert "missing" not in ran.err


def test_standard_input_and_output(place: Path) -> None:
    """An image comes in, an image goes out."""
    write_image("p.png", noisy())
    ran = call("denoise", "-", "-o", "-", *QUICK, stdin=Path("p.png").read_bytes())
    assert ran.code == 0, ran.err
    expected = denoise_image(noisy(), model="ppca", n_components=6, random_state=0)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(ran.out))), expected.image)
    assert [path.name for path in place.iterdir()] == ["p.png"]


def test_of_several_pages_the_first_is_read_and_that_is_noted(place: Path) -> None:
    """In a line like any other, also of standard input and of a mask."""
    first, mask = Image.fromarray(noisy()), np.zeros((H, W), np.uint8)
    mask[8:12, 8:12] = 255
    first.save("p.tif", save_all=True, append_images=[Image.fromarray(clean())] * 2)
    Image.fromarray(mask).save("m.tif", save_all=True, append_images=[first])
    ran = call("inpaint", "-", "--mask", "m.tif", *QUICK, stdin=Path("p.tif").read_bytes())
    assert ran.code == 0, ran.err
    assert ran.err.startswith(
        "Note    standard input holds 3 images; the first is read\n"
        "Note    m.tif holds 2 images; the first is read\n"
        f"Read    standard input, {W} x {H} pixels, grey, 8 bits; 1.79 % of its samples are missing"
    )
    assert facts("denoise", "p.tif", *QUICK)["notes"] == ["p.tif holds 3 images; the first is read"]


# inpaint -------------------------------------------------------------------------------------


def test_hidden_samples_are_found_again_and_the_error_is_told(place: Path) -> None:
    """random:SHARE hides single samples, the same ones for a seed; PSNR by hand."""
    write_image("p.png", clean())
    found = facts("inpaint", "p.png", "--mask", "random:0.5", "--compare", "c.png", *QUICK)
    written = read_image("p.inpainted.png")
    error = written.astype(float) - clean()
    hidden = np.random.default_rng(0).random(error.shape) < 0.5
    assert found["missing"] == found["filled"] == hidden.sum()
    assert not error[~hidden].any()
    assert found["psnr"] == pytest.approx(10 * np.log10(255**2 / np.mean(error**2)))
    of_hidden = 10 * np.log10(255**2 / np.mean(error[hidden] ** 2))
    assert found["psnr_of_hidden"] == pytest.approx(of_hidden)
    assert found["psnr"] > 30
    np.testing.assert_array_equal(in_panel(read_image("c.png"), 0), clean())
    np.testing.assert_array_equal(in_panel(read_image("c.png"), 2), written)
    again = facts("inpaint", "p.png", "--mask", "random:50%", *QUICK, "--force")
    assert again["psnr"] == found["psnr"]


@pytest.mark.parametrize("kind", ["white", "one", "colour", "opacity", "jpeg"])
def test_what_is_not_black_in_a_mask_is_missing(place: Path, kind: str) -> None:
    """White, or any other value; of a colour in any channel; what is transparent is not painted
    over; JPEG, which does not keep black, by halves. Seen pixels stay to the last bit."""
    image = clean(3 if kind == "white" else 1)
    write_image("p.png", image)
    gone = np.zeros((H, W), bool)
    gone[8:16, 8:12] = gone[20:24, 24:30] = True
    mask: Any = gone.astype(np.uint8) * np.uint8(1 if kind == "one" else 255)
    if kind == "colour":
        mask = np.stack([0 * mask, mask // 9, 0 * mask], axis=2)
    elif kind == "opacity":
        mask = np.dstack([np.full((H, W, 3), 200, np.uint8), mask])
    name = "m.jpg" if kind == "jpeg" else "m.png"
    write_image(name, mask)
    ran = call("inpaint", "p.png", "--mask", name, *QUICK, "--sd", "sd.tif")
    assert ran.code == 0, ran.err
    assert "PSNR" not in ran.err
    assert ("Note    the mask m.jpg is a JPEG" in ran.err) == (kind == "jpeg")
    written, sd = read_image("p.inpainted.png"), read_image("sd.tif")
    np.testing.assert_array_equal(written[~gone], image[~gone])
    assert (sd[gone] > 0).all()
    assert not sd[~gone].any()
    if kind == "white":
        how = {"model": "ppca", "n_components": 6, "random_state": 0}
        np.testing.assert_array_equal(written, inpaint_image(image, gone, **how).image)


@pytest.mark.parametrize("rows", [H // 2, H - 2], ids=["half", "most"])
def test_a_mask_that_leaves_little_may_be_inverted(place: Path, rows: int) -> None:
    """That is asked, of an image and not of chance, and the work is done."""
    write_image("p.png", clean())
    mask = np.zeros((H, W), np.uint8)
    mask[:rows] = 255
    write_image("m.png", mask)
    ran = call("inpaint", "p.png", "--mask", "m.png", *QUICK)
    assert ran.code == 0, ran.err
    asked = "Note    the mask m.png leaves 7.14 % of the image"
    assert (asked in ran.err) == ("other way round?" in ran.err) == (rows > H // 2)
    assert "Note" not in call("inpaint", "p.png", "--mask", "random:0.9", *QUICK, "--force").err


def test_nan_of_a_tiff_is_missing_without_a_mask(place: Path) -> None:
    image = clean().astype(np.float32)
    image[10:14, 10:14] = np.nan
    write_image("p.tif", image)
    found = facts("inpaint", "p.tif", *QUICK)
    assert found["missing"] == 16
    written = read_image("p.inpainted.tif")
    assert np.isfinite(written).all()
    observed = np.isfinite(image)
    np.testing.assert_array_equal(written[observed], image[observed])


# What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("denoise", "not-there.png"), 4, "not-there.png"),
        (("denoise", "text.png"), 4, "no image"),
        (("denoise", "cut.png"), 4, "damaged"),
        (("denoise", "p.png", "-o", "there.png"), 3, "--force"),
        (("denoise", "p.png", "--compare", "there.png"), 3, "--compare FILE"),
        (("denoise", "p.png", "-o", "p.png", "--force"), 2, "would replace"),
        (("denoise", "p.png", "-o", "x.gif"), 2, "ends in none of .png"),
        (("denoise", "p.png", "-o", "x.png", "--sd", "x.png"), 2, "same name"),
        (("denoise", "p.png", "--sd", "-"), 2, "--sd -"),
        (("denoise", "deep.png", "-o", "x.jpg"), 2, "JPEG holds 8 bits"),
        (("denoise", "p.png", "-o", "-", "--json"), 2, "--json"),
        (("denoise", "p.png", "-o", "no/x.png"), 4, "no folder"),
        (("denoise", "p.png", "-k", "0"), 2, "-k 0: it is a whole number"),
        (("denoise", "p.png", "-k", "0.5"), 2, "or auto"),
        (("denoise", "p.png", "-k", "5000"), 5, "-k 5000 is more than the 64 entries of a patch"),
        (("denoise", "p.png", "--sigma", "0"), 2, "--sigma"),
        (("denoise", "p.png", "--sigma", "nan"), 2, "--sigma nan: it is a standard deviation"),
        (("inpaint", "p.png", "--sigma", "inf"), 2, "--sigma inf"),
        (("denoise", "float.tif", "-o", "x.png"), 2, "Name a .tif file, which keeps floats"),
        (("denoise", "opaque.png", "-o", "x.jpg"), 2, "Name a .png or .tif file"),
        (("denoise", "five.tif", "--sd", "x.png"), 2, "--sd x.png: PNG holds up to 4 channels"),
        (("denoise", "gaps.tif"), 5, "give --sigma, its standard deviation"),
        (("denoise", "void.tif"), 5, "nothing to learn from"),
        (("inpaint", "void.tif"), 5, "all of void.tif is missing"),
        (("denoise", "infinite.tif"), 5, "at row 6, column 5, channel 1, and in 2 more places"),
        (("denoise", "red.tif"), 5, "channel 1 is missing throughout"),
        (("denoise", "signed.tif"), 4, "run from -5 to 4, and whole numbers are kept from 0"),
        (("inpaint", "p.png", "--mask", "random"), 2, "e.g. random:0.8"),
        (("inpaint", "p.png"), 2, "--mask"),
        (("inpaint", "p.png", "--mask", "random:1.5"), 2, "between 0 and 1"),
        (("inpaint", "p.png", "--mask", "random:x"), 2, "random:0.8"),
        (("inpaint", "p.png", "--mask", "small.png"), 5, "is 8 x 8 pixels"),
        (
            ("inpaint", "p.png", "--mask", "black.png"),
            2,
            "the mask black.png is black all over, so that nothing is missing: paint white what is "
            "missing, and black what is observed\n",
        ),
        (
            ("inpaint", "p.png", "--mask", "drawn.png"),
            2,
            "black all over where it is opaque, so that nothing is missing: paint white what is "
            "missing, and black what is observed; opacity alone marks nothing\n",
        ),
        (("inpaint", "p.png", "--mask", "white.png"), 5, "other way round"),
        (("inpaint", "p.png", "--mask", "not-there.png"), 4, "not-there.png"),
        (("inpaint", "-", "--mask", "-"), 2, "standard input"),
    ],
    ids=lambda value: " ".join(value[:5]).replace("/", "_") if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_told(
    place: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    """With the exit codes of all commands, in one sentence, and nothing is written."""
    write_image("p.png", clean())
    write_image("there.png", clean())
    write_image("deep.png", clean().astype(np.uint16))
    write_image("small.png", clean()[:8, :8])
    write_image("black.png", np.zeros((H, W), np.uint8))
    write_image("white.png", np.full((H, W), 255, np.uint8))
    write_image("opaque.png", np.zeros((H, W, 4), np.uint8))
    write_image("drawn.png", np.dstack([np.zeros((H, W, 3), np.uint8), clean()]))
    write_image("five.tif", clean(5))
    write_image("float.tif", clean().astype(np.float32))
    write_image("gaps.tif", np.where(np.indices((H, W)).sum(axis=0) % 2, np.nan, clean()))
    write_image("void.tif", np.full((H, W), np.nan))
    for name, value in (("infinite.tif", np.inf), ("red.tif", np.nan)):
        bad = clean(3).astype(np.float64)
        bad[(5, 4) if name == "infinite.tif" else (..., 0)] = value
        write_image(name, bad)
    Image.fromarray(np.arange(-5, 5, dtype=np.int32).reshape(2, 5)).save("signed.tif")
    Path("text.png").write_text("no image")
    Path("cut.png").write_bytes(Path("p.png").read_bytes()[:200])
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    ran = call(*arguments)
    assert ran.code == code, ran.err
    assert says in ran.err
    assert "Error: " in ran.err
    for word in ("array", "n_components", "~mask", "imread", "give sigma", "counted from"):
        assert word not in ran.err
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


# What a newcomer found -----------------------------------------------------------------------


def masked() -> np.ndarray:
    mask = np.zeros((H, W), np.uint8)
    mask[10:14, 12:18] = 255
    return mask


def test_the_mask_is_an_input_that_force_does_not_replace(place: Path) -> None:
    write_image("p.png", clean())
    write_image("m.png", masked())
    ran = call("inpaint", "p.png", "--mask", "m.png", "-o", "m.png", "--force")
    assert ran.code == 2
    assert "would replace the data m.png" in ran.err
    np.testing.assert_array_equal(read_image("m.png"), masked())
    beside = call("inpaint", "p.png", "--mask", "m.png", "--sd", "p.png", "--force")
    assert "name another file with --sd FILE" in beside.err


def test_a_comparison_without_a_name_lies_beside_what_is_written(place: Path) -> None:
    (place / "out").mkdir()
    write_image("p.png", clean())
    write_image("m.png", masked())
    found = facts("inpaint", "p.png", "--mask", "m.png", "-o", "out/q.png", "--compare", *QUICK)
    assert found["compared"] == "out/q.compared.png"
    assert (place / "out" / "q.compared.png").exists()


def test_masks_of_lossy_webp_and_of_nan_mark_what_was_meant(place: Path) -> None:
    write_image("p.png", clean())
    Image.fromarray(masked()).convert("RGB").save("m.webp", quality=40)
    ran = call("inpaint", "p.png", "--mask", "m.webp", "-o", "a.png", *QUICK)
    assert "is a lossy WebP" in ran.err
    marked = masked().astype(bool)
    Image.fromarray(masked()).convert("RGB").save("l.webp", lossless=True)
    exact = facts("inpaint", "p.png", "--mask", "l.webp", "-o", "c.png", *QUICK)
    assert exact["missing"] == marked.sum()
    write_image("m.tif", np.where(marked, np.nan, 0.0).astype(np.float32))
    found = facts("inpaint", "p.png", "--mask", "m.tif", "-o", "b.png", *QUICK)
    assert found["missing"] == marked.sum()


def test_pixels_erased_to_transparency_are_filled_and_observed_again(place: Path) -> None:
    hole = masked() > 0
    colours, opacity = clean(3), np.full((H, W), 255, np.uint8)
    opacity[0, :3] = 77
    opacity[hole] = 0
    write_image("p.png", np.dstack([np.where(hole[..., None], 0, colours), opacity]))
    refused = call("inpaint", "p.png")
    assert "--mask transparent for its 24 transparent pixels" in refused.err
    found = facts("inpaint", "p.png", "--mask", "transparent", "-o", "q.png", *QUICK)
    assert found["missing"] == 3 * hole.sum()
    result = read_image("q.png")
    np.testing.assert_array_equal(result[..., 3], np.where(hole, 255, opacity))
    np.testing.assert_array_equal(result[~hole][:, :3], colours[~hole])
    assert np.abs(result[hole][:, :3].astype(float) - colours[hole]).mean() < 20
    write_image("opaque.png", colours)
    assert "is transparent. Erase" in call("inpaint", "opaque.png", "--mask", "transparent").err


def test_channels_that_are_no_opacity_are_restored_and_come_back_as_such(place: Path) -> None:
    four = np.stack([noisy().astype(np.float32) + k for k in range(4)], axis=2)
    four += np.random.default_rng(2).normal(0.0, 3.0, four.shape).astype(np.float32)
    write_image("four.tif", four, opacity=False)
    found = facts("denoise", "four.tif", "-o", "q.tif", *QUICK)
    assert found["channels"] == 4
    changed = np.abs(read_image("q.tif") - four).mean(axis=(0, 1))
    assert changed.min() > 0.5 * changed.max() > 0.1  # the last like the others
    again = call("denoise", "q.tif", "-o", "r.png", *QUICK)
    assert again.code == 2
    write_image("rgba.tif", np.dstack([noisy(3), masked()]))
    facts("denoise", "rgba.tif", "-o", "s.tif", *QUICK)
    np.testing.assert_array_equal(read_image("s.tif")[..., 3], masked())


def test_standard_deviations_that_are_not_known_are_told(place: Path) -> None:
    write_image("black.png", np.zeros((12, 12), np.uint8))
    mask = np.full((12, 12), 255, np.uint8)
    mask[:2, :4] = 0
    write_image("m.png", mask)
    ran = call("inpaint", "black.png", "--mask", "m.png", "--sd", "sd.tif", "-o", "b.png")
    assert "standard deviations; not known of 136 samples (NaN)" in ran.err
    found = facts("inpaint", "black.png", "--mask", "m.png", "--sd", "sd.png", "-o", "c.png")
    assert found["largest_sd"] is None
    assert found["unknown_sd"] == 136


def test_inks_are_told(place: Path) -> None:
    Image.fromarray(noisy(3)).convert("CMYK").save("inks.jpg", quality=95)
    assert "are CMYK, and are read as RGB" in call("denoise", "inks.jpg", "-o", "a.png", *QUICK).err


def test_the_case_of_random_does_not_matter(place: Path) -> None:
    write_image("p.png", clean())
    assert facts("inpaint", "p.png", "--mask", "Random:0.3", "-o", "q.png", *QUICK)["psnr"] > 20
