"""Laws of `denoise_image` and `inpaint_image`."""

from __future__ import annotations

import numpy as np
import pytest

from eigengap.images import Restored, denoise_image, inpaint_image
from eigengap.images.files.comparing import before_and_after, side_by_side
from eigengap.images.mixture import PatchMixture, fit_mixture, unbiased


def scene(h=40, w=44, channels=3):
    """Edges, a slope and a texture, in 0 .. 255."""
    y, x = np.mgrid[:h, :w].astype(float)
    base = 90 + 60 * np.sin(x / 6.0) * np.cos(y / 9.0) + 50 * (x + 2 * y > h + 10) + 0.5 * y
    if channels == 1:
        return base
    return np.stack([base * (1.0 - 0.15 * k) + 8 * k for k in range(channels)], axis=2)


def psnr(a, b):
    return 10 * np.log10(255**2 / np.mean((np.asarray(a, float) - b) ** 2))


def hidden(shape, share=0.6, seed=0):
    return np.random.default_rng(seed).random(shape) < share


FAST = {"patch": 4, "n_mixture": 3, "random_state": 0}


# Inpainting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("channels", [1, 3])
def test_observed_entries_stay_and_type_and_shape_are_kept(dtype, channels):
    unit = {"uint8": 1.0, "uint16": 200.0}.get(dtype, 1 / 255)
    image = (scene(32, 32, channels) * unit).astype(dtype)
    mask = hidden(image.shape)
    restored = inpaint_image(image, mask, **FAST)
    assert isinstance(restored, Restored)
    assert restored.image.dtype == image.dtype
    assert restored.shape == restored.sd.shape == image.shape
    np.testing.assert_array_equal(restored.image[~mask], image[~mask])
    assert np.all(restored.sd[~mask] == 0)
    assert np.all(restored.sd[mask] > 0)
    assert psnr(restored.image / unit, scene(32, 32, channels)) > 24
    assert restored.n_missing == mask.sum()


def test_nan_is_a_mask_and_so_is_a_masked_array():
    image, mask = scene(20, 24), hidden((20, 24, 3))
    by_mask = inpaint_image(image, mask, **FAST)
    by_nan = inpaint_image(np.where(mask, np.nan, image), **FAST)
    by_array = inpaint_image(np.ma.array(image, mask=mask), **FAST)
    for other in (by_nan, by_array):
        np.testing.assert_array_equal(other.image, by_mask.image)
        np.testing.assert_array_equal(other.sd, by_mask.sd)


def test_what_is_hidden_does_not_matter():
    image, mask = scene(20, 24), hidden((20, 24))
    other = np.where(mask[..., None], 17.0, image)
    a, b = inpaint_image(image, mask, **FAST), inpaint_image(other, mask, **FAST)
    np.testing.assert_array_equal(a.image, b.image)


def test_the_unit_of_intensity_does_not_matter():
    image, mask = scene(20, 24), hidden((20, 24, 3))
    a = inpaint_image(image, mask, **FAST)
    b = inpaint_image(0.01 * image - 3.0, mask, **FAST)
    np.testing.assert_allclose(b.image, 0.01 * a.image - 3.0, atol=1e-4)
    np.testing.assert_allclose(b.sd, 0.01 * a.sd, rtol=1e-2, atol=1e-5)


def test_the_same_seed_gives_the_same_image():
    image, mask = scene(20, 24), hidden((20, 24, 3))
    a, b = inpaint_image(image, mask, **FAST), inpaint_image(image, mask, **FAST)
    np.testing.assert_array_equal(a.image, b.image)
    np.testing.assert_array_equal(a.sd, b.sd)


def test_pieces_do_not_show(monkeypatch):
    image, mask = scene(20, 24), hidden((20, 24, 3))
    whole = inpaint_image(image, mask, **FAST)
    monkeypatch.setattr("eigengap.images.patches.TILE", 37)
    pieces = inpaint_image(image, mask, **FAST)
    assert pieces.tiles > whole.tiles
    np.testing.assert_allclose(pieces.image, whole.image, atol=1e-8)
    noisy = image + np.random.default_rng(1).normal(0, 10, image.shape)
    monkeypatch.undo()
    whole = denoise_image(noisy, **FAST)
    monkeypatch.setattr("eigengap.images.patches.TILE", 37)
    np.testing.assert_allclose(denoise_image(noisy, **FAST).image, whole.image, atol=1e-3)


def test_a_wide_hole_is_filled_sensibly_and_its_middle_is_least_certain():
    image = scene(64, 64, 1)
    mask = np.zeros(image.shape, bool)
    mask[20:44, 18:46] = True
    restored = inpaint_image(image, mask, **FAST)
    assert np.isfinite(restored.image).all()
    low, high = image.min(), image.max()
    assert restored.image.min() > low - 60
    assert restored.image.max() < high + 60
    assert psnr(restored.image, image) > 17
    sd = restored.sd
    assert sd[32, 32] > 2 * np.median(sd[20, 18:46])


def test_one_observed_pixel_is_enough():
    image = np.full((12, 12), np.nan)
    image[3, 4], image[8, 8] = 10.0, 20.0
    restored = inpaint_image(image, **FAST)
    assert np.isfinite(restored.image).all()
    assert restored.image[3, 4] == 10.0


def test_noise_is_removed_from_observed_entries_where_it_is_asked_for():
    clean, mask = scene(24, 28), hidden((24, 28, 3), 0.3)
    noisy = clean + np.random.default_rng(1).normal(0, 12, clean.shape)
    exact = inpaint_image(noisy, mask, **FAST)
    smooth = inpaint_image(noisy, mask, sigma=12.0, **FAST)
    assert psnr(smooth.image, clean) > psnr(exact.image, clean) + 3
    denoised = denoise_image(np.where(mask, np.nan, noisy), sigma=12.0, **FAST)
    assert psnr(denoised.image, clean) > psnr(exact.image, clean) + 3
    assert np.isfinite(denoised.image).all()


@pytest.mark.slow
def test_better_than_smooth_filling_and_a_mixture_than_one_gaussian_of_low_rank():
    from eigengap.images.imputation import pull_push

    image, mask = scene(48, 48), hidden((48, 48, 3), 0.8)
    smooth = pull_push(np.where(mask, np.nan, image))
    mixture = inpaint_image(image, mask, n_mixture=3, random_state=0)
    single = inpaint_image(image, mask, model="ppca", n_components=12, random_state=0)
    assert single.n_mixture == 1
    assert psnr(mixture.image, image) > psnr(smooth, image) + 4
    assert psnr(single.image, image) > psnr(smooth, image) + 3


@pytest.mark.slow
def test_intervals_hold_about_as_much_as_they_say():
    image, mask = scene(64, 64), hidden((64, 64, 3), 0.7)
    image = image + np.random.default_rng(5).normal(0, 3, image.shape)
    restored = inpaint_image(image, mask, patch=4, n_mixture=2, random_state=0)
    inside = np.abs(restored.image - image)[mask] < 1.96 * restored.sd[mask]
    assert 0.88 < inside.mean() < 0.99


# Denoising ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "channels"), [(5.0, 1), (15.0, 3), (40.0, 1), (40.0, 3)])
def test_noise_is_learned_and_removed(sigma, channels):
    clean = scene(56, 56, channels)
    noisy = clean + np.random.default_rng(0).normal(0, sigma, clean.shape)
    restored = denoise_image(noisy, random_state=0)
    assert abs(restored.noise_sd / sigma - 1) < 0.05
    assert psnr(restored.image, clean) > psnr(noisy, clean) + 6
    given = denoise_image(noisy, sigma=sigma, random_state=0)
    assert given.noise_sd == pytest.approx(sigma)


def test_ppca_is_a_mixture_of_one():
    clean = scene()
    noisy = clean + np.random.default_rng(0).normal(0, 15, clean.shape)
    one = denoise_image(noisy, model="ppca", n_components=9, random_state=0)
    assert one.ranks == (9,)
    assert psnr(one.image, clean) > psnr(noisy, clean) + 5


def test_denoised_units_do_not_matter():
    noisy = scene() + np.random.default_rng(0).normal(0, 15, (40, 44, 3))
    a, b = denoise_image(noisy, **FAST), denoise_image(noisy / 51 + 2, **FAST)
    np.testing.assert_allclose(b.image, a.image / 51 + 2, atol=2e-3)
    assert b.noise_sd == pytest.approx(a.noise_sd / 51, rel=1e-4)


def test_posterior_of_one_component_is_wieners():
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(12, 3)))[0]
    X = rng.normal(size=(4000, 3)) * [9.0, 6.0, 4.0] @ U.T + 2.0 + 0.5 * rng.normal(size=(4000, 12))
    mixture = fit_mixture(X, 0.25, 1, None, rng)
    assert mixture.ranks == (3,)
    (one,) = mixture.components
    beside = np.eye(12) - one.U @ one.U.T
    C = (one.U * (one.lam - 0.25)) @ one.U.T + (one.rest - 0.25) * beside
    gain = C @ np.linalg.inv(C + 0.25 * np.eye(12))
    mean, variance = mixture.posterior(X[:50])
    np.testing.assert_allclose(mean, one.mu + (X[:50] - one.mu) @ gain.T, atol=1e-8)
    learned = 0.25 * (1 + 3) / 4000  # mu and three axes, each known from so many patches
    expected = np.diag(C - gain @ C) + learned
    np.testing.assert_allclose(variance, np.tile(expected, (50, 1)), atol=1e-8)
    expected = -0.5 * np.einsum(
        "ij,jk,ik->i", X - one.mu, np.linalg.inv(C + 0.25 * np.eye(12)), X - one.mu
    )
    found = mixture.log_joint(X)[:, 0]
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-7)


def test_two_kinds_of_patches_are_told_apart():
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.normal(size=(16, 2)))[0] for _ in range(2))
    z = rng.normal(size=(3000, 2)) * 8.0
    X = np.where(np.arange(3000)[:, None] < 1500, z @ U.T + 20.0, z @ V.T)
    X += 0.3 * rng.normal(size=X.shape)
    mixture = fit_mixture(X, 0.09, 2, None, rng)
    assert isinstance(mixture, PatchMixture)
    assert mixture.ranks == (2, 2)
    label = mixture.responsibilities(X).argmax(axis=1)
    assert len(set(label[:1500])) == len(set(label[1500:])) == 1
    assert label[0] != label[-1]


def test_spikes_are_put_back_where_they_were():
    gamma, spike = 0.5, np.array([8.0, 4.0])
    sample = spike * (1 + gamma / (spike - 1))
    np.testing.assert_allclose(unbiased(3.0 * sample, 3.0, gamma), 3.0 * spike)


# Both ---------------------------------------------------------------------------------------


def test_opacity_stays_as_it_is():
    rgba = np.concatenate([scene(16, 20), np.full((16, 20, 1), 128.0)], axis=2).astype(np.uint8)
    rgba[:5, :5, 3] = 0
    mask = hidden((16, 20))
    restored = inpaint_image(rgba, mask, **FAST)
    np.testing.assert_array_equal(restored.image[..., 3], rgba[..., 3])
    assert np.all(restored.sd[..., 3] == 0)
    assert np.all(denoise_image(rgba, **FAST).image[..., 3] == rgba[..., 3])
    four = inpaint_image(rgba, mask, opacity=False, **FAST)
    assert np.any(four.sd[..., 3] > 0)


@pytest.mark.parametrize("restore", [denoise_image, inpaint_image])
def test_a_flat_image_stays_flat(restore):
    image = np.full((20, 20), 7.0)
    image[3, 3] = np.nan
    restored = restore(image)
    assert np.all(restored.image == 7.0)
    assert np.all(restored.sd == 0)


def test_tiny_images_shrink_the_patch():
    image = scene(5, 30, 1)
    mask = hidden(image.shape, 0.3)
    restored = inpaint_image(image, mask, random_state=0)
    assert restored.patch == 5
    assert np.isfinite(restored.image).all()
    image[0, 0] = np.nan
    tiny = inpaint_image(image[:3, :3], random_state=0)
    assert tiny.patch == 2
    assert np.isfinite(tiny.image).all()
    assert denoise_image(scene(6, 40), random_state=0).patch == 4


@pytest.mark.parametrize(
    ("image", "error", "words"),
    [
        (np.full((9, 9), np.nan), ValueError, "nothing to learn from"),
        (np.zeros(9), ValueError, r"\(h, w\)"),
        (np.zeros((2, 9, 9, 3)), ValueError, "one by one"),
        (np.zeros((1, 9)), ValueError, "2 x 2"),
        (np.zeros((9, 9), bool), TypeError, "bool"),
        (np.zeros((9, 9), complex), TypeError, "real and imaginary"),
        (np.zeros((9, 9), np.int64), TypeError, "uint8, uint16"),
        (np.where(np.eye(9), np.inf, 1.0), ValueError, "infinite at row 0, column 0"),
    ],
    ids=["all-missing", "1-d", "4-d", "a-line", "bool", "complex", "int64", "inf"],
)
@pytest.mark.parametrize("restore", [denoise_image, inpaint_image])
def test_what_is_no_image_is_refused(restore, image, error, words):
    with pytest.raises(error, match=words):
        restore(image)


@pytest.mark.parametrize(
    ("mask", "error", "words"),
    [
        (np.zeros((9, 8), bool), ValueError, r"shape \(9, 8\)"),
        (np.zeros((9, 9)), TypeError, "booleans"),
        (np.full((9, 9), 7), TypeError, "255"),
        (np.ones((9, 9), bool), ValueError, "~mask"),
        (np.tile([False, True, False], (9, 9, 1)), ValueError, "channel 1"),
    ],
    ids=["shape", "float", "sevens", "everything", "a-channel"],
)
def test_wrong_masks_are_refused(mask, error, words):
    with pytest.raises(error, match=words):
        inpaint_image(scene(9, 9), mask)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"patch": 1}, "patch"),
        ({"patch": 4, "stride": 5}, "would be lost"),
        ({"model": "pca"}, "'mixture', 'ppca'"),
        ({"n_components": 0}, "auto"),
        ({"n_components": 1000}, "entries of a patch"),
        ({"n_mixture": 0}, "n_mixture"),
        ({"sigma": -1.0}, "standard deviation"),
        ({"sigma": np.nan}, "standard deviation"),
    ],
)
@pytest.mark.parametrize("restore", [denoise_image, inpaint_image])
def test_wrong_arguments_are_refused(restore, arguments, words):
    image = scene(20, 20)
    image[0, 0] = np.nan
    with pytest.raises(ValueError, match=words):
        restore(image, **arguments)


def test_noise_cannot_be_learned_where_no_patch_is_complete():
    image = np.where(hidden((40, 44, 3), 0.8), np.nan, scene())
    with pytest.raises(ValueError, match="give sigma"):
        denoise_image(image)


def test_restored_is_an_array():
    restored = inpaint_image(scene(12, 12), hidden((12, 12, 3), 0.3), **FAST)
    assert np.asarray(restored) is restored.image
    assert np.asarray(restored, dtype=np.float32).dtype == np.float32
    assert np.array(restored, copy=True) is not restored.image
    assert (restored.ndim, restored.size, len(restored)) == (3, 432, 12)
    assert "Gaussian" in repr(restored)
    np.testing.assert_array_equal(restored - restored.image, 0)


def test_before_and_after():
    pytest.importorskip("PIL")
    image, mask = scene(60, 70).clip(0, 255).astype(np.uint8), hidden((60, 70, 3), 0.3)
    restored = inpaint_image(image, mask, patch=2, n_mixture=1, random_state=0)
    sheet = before_and_after(image, restored, original=image, mask=mask)
    assert sheet.dtype == np.uint8
    assert sheet.shape[1] == 4 * 70 + 5 * 8
    np.testing.assert_array_equal(sheet[8:68, 8:78], image)
    assert side_by_side([("a", image[..., 0]), ("b", image)]).shape[1] == 2 * 70 + 3 * 8
