"""Noise that is learned from hard images, and what `denoise_image` says of its own errors."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from eigengap.exceptions import ImpulseNoiseWarning
from eigengap.images import denoise_image
from eigengap.images.denoising import own_channels
from eigengap.images.impulses import beyond_noise, beyond_range, without_impulses
from eigengap.images.noise import learned_noise, left_by_clipping, limits, still, unclipped


def scene(h=40, w=44):
    """Edges, a slope and waves, in 0 .. 255."""
    y, x = np.mgrid[:h, :w].astype(float)
    return 90 + 60 * np.sin(x / 6.0) * np.cos(y / 9.0) + 50 * (x + 2 * y > h + 10) + 0.5 * y


def smooth(h, w):
    y, x = np.mgrid[:h, :w].astype(float)
    return 100 + 40 * np.sin(x / 5.0) + 2 * y


def noisy(clean, sigma, seed=0):
    return clean + np.random.default_rng(seed).normal(0, sigma, clean.shape)


def learned(image, patch=8):
    values = np.asarray(image, float)
    wide = values[..., None] if values.ndim == 2 else values
    return learned_noise(wide, patch, np.random.default_rng(0))


def rms(a, b):
    return float(np.sqrt(np.mean((np.asarray(a, float) - b) ** 2)))


# Impulses -------------------------------------------------------------------------------


@pytest.mark.parametrize("hot", [-3000.0, 1e6, 1e12])
def test_a_hot_pixel_stays_and_harms_no_other(hot):
    clean = scene(32, 40)
    image = noisy(clean, 15)
    good = denoise_image(image, random_state=0)
    image[10, 12] = hot
    with pytest.warns(ImpulseNoiseWarning, match="1 entry lies .*row 10, column 12"):
        restored = denoise_image(image, random_state=0)
    assert restored.noise_sd == pytest.approx(15, rel=0.05)
    assert restored.image[10, 12] == hot
    assert restored.sd[10, 12] == pytest.approx(restored.noise_sd)
    rest = np.ones(clean.shape, bool)
    rest[10, 12] = False
    assert rms(restored.image[rest], clean[rest]) < 1.1 * rms(good.image, clean)


def test_hot_entries_of_a_image_with_opacity_and_missing():
    clean = np.stack([scene(24, 28)] * 3 + [np.full((24, 28), 128.0)], axis=2)
    image = noisy(clean, 10)
    image[..., 3] = 128.0
    image[5, 6, 1] = image[5, 7, 1] = 1e7  # two side by side
    image[12:14, 15, :3] = np.nan
    with pytest.warns(ImpulseNoiseWarning, match="2 entries lie"):
        restored = denoise_image(image, patch=4, n_mixture=2, random_state=0)
    assert np.all(restored.image[5, 6:8, 1] == 1e7)
    assert np.all(restored.image[..., 3] == 128.0)
    assert restored.n_missing == 6
    restored.image[5, 6:8, 1] = clean[5, 6:8, 1]
    assert rms(restored.image, clean) < 6


def test_what_is_an_impulse():
    values = noisy(np.zeros((20, 24, 2)), 1.0)
    values[7:9, :, 0] += 500  # a band has neighbours of its kind
    values[:, 3, 1] += 500  # and so has a line
    values[12, 12, 0] = np.nan
    truth = [(0, 0, 0), (12, 13, 0), (19, 23, 1), (5, 10, 1), (6, 11, 1)]
    for at in truth:
        values[at] = 1000.0
    calm, found = without_impulses(values, beyond_noise(values, 0.0).distance)
    assert {tuple(map(int, at)) for at in np.argwhere(found)} == set(truth)
    assert np.all(np.abs(calm[found]) < 5)
    np.testing.assert_array_equal(calm[~found], values[~found])


def test_there_is_no_impulse_where_nothing_is_usual():
    flat = np.zeros((9, 9, 1))
    flat[4, 4] = 1e9
    assert beyond_noise(flat[:4], 0.0).distance == beyond_range(flat[:4]).distance == 0.0
    assert not without_impulses(flat, 0.0)[1].any()
    assert not without_impulses(flat, beyond_noise(flat, 0.0).distance)[1].any()
    assert without_impulses(flat, beyond_noise(flat, 1.0).distance)[1].sum() == 1
    alone = np.full((5, 5, 1), np.nan)
    alone[::2, ::2] = 1.0  # no two side by side
    assert beyond_noise(alone, 0.0).distance == 0.0


@pytest.mark.parametrize("sigma", [None, 15.0])
def test_salt_and_pepper_breaks_nothing(sigma):
    clean = scene(32, 40)
    rng = np.random.default_rng(1)
    salt = rng.random(clean.shape) < 0.05
    image = np.where(salt, rng.choice([0.0, 255.0], clean.shape), noisy(clean, 15))
    restored = denoise_image(image.clip(0, 255).astype(np.uint8), sigma=sigma, random_state=0)
    assert rms(restored.image[~salt], clean[~salt]) < 15
    assert 0 < restored.sd.min() <= restored.sd.max() < 60


# The noise ----------------------------------------------------------------------------------


def test_what_clipping_leaves():
    z = np.random.default_rng(0).normal(size=400_000)
    for a in (-0.5, 0.0, 0.7, 1.5, 3.0):
        clipped = np.maximum(z + a, 0.0)
        assert left_by_clipping(np.array(clipped.mean())) == pytest.approx(clipped.var(), rel=0.02)
    assert left_by_clipping(np.array([np.inf])) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("sigma", [10.0, 25.0, 40.0])
@pytest.mark.parametrize("channels", [1, 3])
def test_clipped_noise_is_not_taken_for_less(sigma, channels):
    clean = 1.6 * scene(72, 72) - 110  # a quarter of it black, some of it white
    if channels == 3:
        clean = np.stack([clean, 0.7 * clean + 40, 240 - clean], axis=2)
    image = noisy(clean.clip(0, 255), sigma).clip(0, 255).round().astype(np.uint8)
    assert 0.03 < np.mean((image == 0) | (image == 255)) < 0.5
    assert learned(image) == pytest.approx(sigma, rel=0.06)
    assert learned(image / 255.0) == pytest.approx(sigma / 255, rel=0.06)


def test_means_of_clipped_noise_are_put_back():
    rng, noise = np.random.default_rng(0), 25.0
    truth = np.array([0.0, 10.0, 60.0, 128.0, 240.0, 255.0])
    mean = (truth + rng.normal(0, noise, (200_000, 6))).clip(0, 255).mean(axis=0)
    assert mean[0] == pytest.approx(10, abs=0.2)
    mean[0] -= 0.5  # a little too dark: still black
    found, sd = unclipped(mean, np.ones(6), (np.array(0.0), np.array(255.0)), noise)
    np.testing.assert_allclose(found, truth, atol=0.4)
    np.testing.assert_allclose(sd[[0, 3]], [2.0, 1.0], rtol=1e-3)
    never = unclipped(mean, np.ones(6), (np.array(-np.inf), np.array(np.inf)), noise)
    np.testing.assert_allclose(never, [mean, np.ones(6)])


def test_a_clipped_image_is_no_greyer_than_it_was():
    clean = np.where(np.arange(64) < 30, 0.0, smooth(64, 64).clip(60, 180))
    image = noisy(clean, 30).clip(0, 255).round().astype(np.uint8)
    assert image[clean == 0].mean() > 11
    restored = denoise_image(image, random_state=0)
    error = restored.image - clean
    assert error[clean == 0].mean() < 3
    assert np.mean(np.abs(error) < 1.96 * restored.sd) > 0.9


def test_dark_images_of_few_levels():
    image = noisy(scene(72, 72) / 20, 3.0).clip(0, 255).round().astype(np.uint8)
    assert learned(image) == pytest.approx(3.0, rel=0.06)


@pytest.mark.parametrize("level", [0.0, 130.0])
def test_a_border_without_noise_is_not_asked(level):
    image = noisy(scene(80, 80), 15)
    image[:14] = image[-14:] = image[:, :14] = image[:, -14:] = level
    assert learned(image) == pytest.approx(15, rel=0.06)


def test_a_drawing_has_no_noise():
    image = np.full((60, 80, 3), 255.0)
    image[10:30, 10:50] = (200, 30, 30)
    image[::15] = 0
    assert learned(image) == pytest.approx(0.0, abs=1e-6)
    assert still(image).mean() > 0.4


def test_limits_are_where_many_entries_are_equal():
    image = noisy(np.zeros((50, 60, 2)), 1.0)
    image[..., 1] = image[..., 1].clip(-1, np.inf)
    low, high = limits(image)
    np.testing.assert_array_equal(low, [-np.inf, -1.0])
    np.testing.assert_array_equal(high, [np.inf, np.inf])


def test_calm_patches_are_found_though_most_are_texture():
    clean = np.random.default_rng(5).uniform(0, 80, (96, 96))  # as rough as noise of 23
    clean[:, 48:] = 100 + 0.5 * np.arange(96)[:, None]
    clean[48:60] = np.random.default_rng(6).uniform(0, 80, (12, 96))
    assert learned(noisy(clean, 10)) == pytest.approx(10, rel=0.06)


# What it says of its own errors -------------------------------------------------------------


@pytest.mark.parametrize("side", [8, 12, 16, 24, 32])
def test_intervals_of_small_smooth_images(side):
    clean = smooth(side, side)
    held, error = [], []
    for seed in range(4):
        restored = denoise_image(noisy(clean, 20, seed), sigma=20.0, random_state=0)
        held.append(np.mean(np.abs(restored.image - clean) < 1.96 * restored.sd))
        error.append(rms(restored.image, clean))
    assert 0.87 < np.mean(held) <= 1.0
    assert np.mean(error) < 9.0
    assert restored.sd.max() < 40


def test_intervals_hold_what_they_say():
    clean = np.stack([scene(64, 64), 0.8 * scene(64, 64) + 10, 0.6 * scene(64, 64)], axis=2)
    for sigma in (15, 40):
        restored = denoise_image(noisy(clean, sigma), random_state=0)
        assert 0.93 < np.mean(np.abs(restored.image - clean) < 1.96 * restored.sd) < 0.995


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (5, 6), (2, 20)])
def test_images_that_are_too_small_to_learn_the_noise_from(shape):
    image = noisy(smooth(*shape), 5)
    with pytest.raises(ValueError, match="give sigma"):
        denoise_image(image)
    restored = denoise_image(image, sigma=5.0, random_state=0)
    assert np.isfinite(restored.image).all()
    assert 0 < restored.sd.min() <= restored.sd.max() <= image.std() * 1.001


def test_a_small_image_is_not_returned_as_it_is():
    clean = smooth(8, 8)
    errors = [rms(denoise_image(noisy(clean, 15, s), random_state=0), clean) for s in range(5)]
    assert np.mean(errors) < 9


def test_one_intensity_is_known_as_well_as_its_entries_tell():
    image = np.full((20, 30), 7.0)
    image[3, 3] = np.nan
    restored = denoise_image(image, sigma=3.0)
    assert restored.noise_sd == 3.0
    assert np.all(restored.image == 7.0)
    np.testing.assert_allclose(restored.sd, 3.0 / np.sqrt(599), rtol=1e-6)


def test_noise_beyond_the_image_leaves_its_mean():
    image = noisy(scene(), 10)
    restored = denoise_image(image, sigma=1e6, random_state=0)
    assert restored.noise_sd == 1e6
    assert restored.sd.max() <= image.std() * 1.001
    assert rms(restored.image, image.mean()) < 0.5 * image.std()


@pytest.mark.parametrize("model", ["mixture", "ppca"])
def test_threads_change_no_bit(model):
    image = noisy(scene(32, 40), 15)  # so few patches that they are one piece
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(denoise_image(image, model=model, random_state=0))
    one, two = results
    assert one.noise_sd == two.noise_sd
    np.testing.assert_array_equal(one.image, two.image)
    np.testing.assert_array_equal(one.sd, two.sd)


def rooms(h=40, w=48):
    """A grey scene without a plain colour in it."""
    y, x = np.mgrid[:h, :w]
    return 100.0 + 40.0 * np.sin(x / 7.0) * np.cos(y / 6.0) + 30.0 * (x > y)


@pytest.mark.parametrize(
    "colours", [np.ones(3), np.array([1.05, 0.9, 0.7]), np.array([1.0, 0.0, 0.0])],
    ids=["grey", "sepia", "red"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_channels_that_say_the_same_are_denoised_as_one(colours, dtype):
    clean = rooms()
    grey = (clean + np.random.default_rng(0).normal(0, 12.0, clean.shape)).clip(0, 240)
    truth = clean[..., None] * colours
    given = (grey[..., None] * colours).astype(dtype)
    restored = denoise_image(given, random_state=0)
    told = colours > 0  # a channel without a sample has no noise either
    expected = 12.0 * np.sqrt(np.mean(colours[told] ** 2))
    assert abs(restored.noise_sd / expected - 1) < 0.1
    error = np.asarray(restored, float) - truth
    assert np.std(error[..., told]) < 0.5 * 12.0
    assert np.mean(np.abs(error) <= 1.96 * restored.sd + 1e-9 + (dtype == "uint8")) > 0.85
    given_sigma = denoise_image(given, sigma=expected, random_state=0)
    assert given_sigma.noise_sd == expected
    assert np.std((np.asarray(given_sigma, float) - truth)[..., told]) < 0.5 * 12.0


def test_channels_of_their_own_stay():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(9, 9, 3))
    np.testing.assert_array_equal(own_channels(values, 0.0).own(values), values)
    agreeing = values[..., :2] @ rng.normal(size=(2, 3)) + [5.0, -3.0, 8.0]
    channels = own_channels(agreeing, 0.0)
    own = channels.own(agreeing)
    assert own.shape == (9, 9, 2)
    np.testing.assert_allclose(channels.all(own), agreeing, atol=1e-12)
    assert channels.more == pytest.approx(1.5**0.5)
    agreeing[0, 0, 0] = np.nan
    assert own_channels(agreeing, 0.0).axes.shape == (3, 2)


@pytest.mark.parametrize("brightness", [1e3, 1e4])
def test_a_lamp_does_not_keep_the_noise_in_the_rest(brightness):
    clean = rooms(64, 64)
    noisy_image = clean + np.random.default_rng(0).normal(0, 5.0, clean.shape)
    y, x = np.mgrid[:64, :64]
    lamp = np.hypot(y - 30, x - 30) < 4
    restored = denoise_image(noisy_image + brightness * lamp, sigma=5.0, random_state=0)
    far = np.hypot(y - 30, x - 30) > 14
    assert np.std((restored.image - clean)[far]) < 0.6 * 5.0


@pytest.mark.parametrize("side", [8, 16, 24])
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_what_is_drawn_has_no_noise(side, dtype):
    icon = np.zeros((side, side, 3))
    icon[side // 4 : -side // 4, side // 4 : -side // 4] = [200, 30, 60]
    icon[side // 2 :, side // 2 :, 1] = 120
    icon = icon.astype(dtype)
    restored = denoise_image(icon, random_state=0)
    assert restored.noise_sd == 0.0
    np.testing.assert_array_equal(restored.image, icon)


def test_a_border_without_noise_hides_no_hot_pixel():
    image = np.zeros((40, 40))
    image[12:28] = 100 + np.random.default_rng(0).normal(0, 12, (16, 40))
    image[20, 20] = 1e6
    with pytest.warns(ImpulseNoiseWarning, match="row 20, column 20"):
        restored = denoise_image(image, random_state=0)
    assert np.std(restored.image[14:26] - 100, where=restored.image[14:26] < 1e5) < 8
