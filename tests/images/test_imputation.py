"""Standard deviations of imputed entries, from holes to whole pixels to tiny images."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from eigengap.exceptions import ImpulseNoiseWarning
from eigengap.images import denoise_image, inpaint_image
from eigengap.images.gaussians import Gaussian, IncompletePatches
from eigengap.images.imputation import _carried, _scale, thickness, togetherness


def mosaic(h=48, w=48, seed=0):
    """An image of no model: smooth ground, sharp patches, fine grain; grey, in 0 .. 255."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:h, :w].astype(float)
    ground = 110 + 50 * np.sin(x / 7.0 + rng.random()) * np.cos(y / 9.0)
    for _ in range(6):
        top, left = rng.integers(h - 8), rng.integers(w - 8)
        ground[top : top + rng.integers(6, 20), left : left + rng.integers(6, 20)] += rng.normal(
            0, 25
        )
    return ground + rng.normal(0, 2.0, (h, w))


def coverage(image, mask, **options):
    restored = inpaint_image(image, mask, random_state=0, **options)
    missing = np.broadcast_to(
        mask.reshape(mask.shape + (1,) * (image.ndim - mask.ndim)), image.shape
    )
    return np.mean(np.abs(restored.image - image)[missing] <= 1.96 * restored.sd[missing])


# Laws ---------------------------------------------------------------------------------------


def test_doubt_is_carried_as_the_dense_gain_says():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(7, 7))
    one = Gaussian(0.0, rng.normal(size=7), A @ A.T + np.eye(7))
    observed = np.array([[True, True, False, True, False, False, True]])
    doubt = np.where(observed, [[0.0, 2.0, 9.0, 0.5, 9.0, 9.0, 0.0]], 0.0)
    o = observed[0]
    gain = one.C[:, o] @ np.linalg.inv(one.C[np.ix_(o, o)])
    found = _carried(doubt, observed, np.ones((1, 1)), [one], 0.0)
    np.testing.assert_allclose(found[0], gain @ doubt[0, o], atol=1e-10)
    assert isinstance(IncompletePatches.of(np.where(observed, 1.0, np.nan)), IncompletePatches)


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_how_much_channels_go_together_is_told_by_the_mask(share):
    rng = np.random.default_rng(0)
    alone = rng.random((200, 200, 3)) < share
    together = np.repeat(rng.random((200, 200, 1)) < share, 3, axis=2)
    assert togetherness(alone) < 0.05
    assert togetherness(together) == 1.0
    half = np.where(np.arange(200)[:, None, None] < 100, alone, together)
    assert 0.2 < togetherness(half) < 0.9
    assert togetherness(alone[..., :1]) == togetherness(np.zeros((4, 4, 3), bool)) == 0.0


def test_how_thick_missing_are_is_told_by_the_mask():
    rng = np.random.default_rng(0)
    for share in (0.1, 0.8):
        assert thickness(rng.random((100, 100, 1)) < share) == (1, 1)
    squares = (rng.random((25, 25, 1)) < 0.2).repeat(4, axis=0).repeat(4, axis=1)
    assert all(3 <= side <= 5 for side in thickness(squares))
    assert thickness(np.indices((20, 20)).sum(axis=0)[..., None] % 2 == 0) == (1, 1)
    rows = np.zeros((60, 60, 3), bool)
    rows[1::2] = True
    assert thickness(rows)[0] == 1
    assert thickness(rows)[1] > 100
    hole = np.zeros((60, 60, 3), bool)
    hole[20:40, 20:40] = True
    assert min(thickness(hole)) > 10
    assert thickness(np.zeros((4, 4, 1), bool)) == thickness(np.ones((4, 4, 1), bool)) == (1, 1)


def test_intervals_of_smooth_fields_hold_where_held_out_entries_are_easier():
    y, x = np.mgrid[:40, :40]
    image = 100 + 40 * np.sin(x / 5.0) + y
    rows, side, hole = np.zeros((3, 40, 40), bool)
    rows[1::2] = side[:, 32:] = hole[14:28, 12:26] = True
    for mask in (rows, side, hole):
        assert coverage(image, mask, patch=4, n_mixture=2) > 0.8


@pytest.mark.parametrize("restore", [denoise_image, inpaint_image])
@pytest.mark.parametrize("sigma", [1e6, 1e200])
def test_noise_that_drowns_the_image_leaves_its_mean(restore, sigma):
    image = mosaic(24, 24)
    image[3, 4] = np.nan
    restored = restore(image, sigma=sigma, patch=4, n_mixture=2, random_state=0)
    assert restored.noise_sd == sigma
    spread = np.nanstd(image)
    assert np.all(np.abs(restored.image - np.nanmean(image)) < 3 * spread)
    assert np.all(restored.sd > 0.01 * spread)
    assert np.all(restored.sd <= 2.001 * spread)


@pytest.mark.parametrize("n", [19, 99, 1000])
def test_the_scale_bounds_what_is_to_come_as_often_as_it_says(n):
    rng = np.random.default_rng(n)
    held = []
    for _ in range(400):
        z = np.abs(rng.normal(0, 3.0, n + 1))
        held.append(z[-1] <= 1.959964 * _scale(z[:-1]))
    assert np.mean(held) > 0.95 - 3 * (0.95 * 0.05 / 400) ** 0.5
    assert _scale(np.empty(0)) == 1.0


# Images -----------------------------------------------------------------------------------


def test_intervals_in_a_hole_hold_near_its_rim_and_in_its_middle():
    image, inside, where = mosaic(64, 64), [], []
    for seed in range(2):
        top, left = 12 + 9 * seed, 20 - 6 * seed
        mask = np.zeros(image.shape, bool)
        mask[top : top + 18, left : left + 22] = True
        restored = inpaint_image(image, mask, patch=4, n_mixture=3, random_state=0)
        y, x = np.nonzero(mask)
        depth = np.minimum.reduce([y - top + 1, top + 18 - y, x - left + 1, left + 22 - x])
        inside.append((np.abs(restored.image - image) <= 1.96 * restored.sd)[mask])
        where.append(depth)
        sd = restored.sd[mask]
        assert sd[depth >= 6].mean() > 1.5 * sd[depth == 1].mean()
    inside, where = np.concatenate(inside), np.concatenate(where)
    for ring in (where <= 2, (where > 2) & (where <= 5), where > 5):
        assert inside[ring].mean() > 0.85


def test_whole_pixels_whose_channels_agree():
    grey = mosaic(40, 40)
    mask = np.random.default_rng(1).random(grey.shape) < 0.5
    image = np.stack([grey] * 3, axis=2)
    assert coverage(image, mask, patch=4, n_mixture=2) > 0.9


@pytest.mark.parametrize(("side", "channels"), [(4, 1), (6, 3), (8, 1), (10, 3), (12, 1)])
def test_small_images(side, channels):
    held = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        top, left = rng.integers(48 - side, size=2)
        image = mosaic(seed=seed)[top : top + side, left : left + side]
        if channels > 1:
            image = np.stack([image, 0.8 * image + 3, 255 - image], axis=2)
            image = image + rng.normal(0, 2.0, image.shape)
        mask = rng.random(image.shape) < 0.4
        held.append(coverage(image, mask))
    assert np.mean(held) > 0.85


def test_patches_of_small_images_are_smaller():
    image = mosaic()[:9, :9]
    image[2, 3] = np.nan
    assert inpaint_image(image, random_state=0).patch == 5
    assert inpaint_image(image[:3, :3], random_state=0).patch == 2


def test_what_is_equal_says_so_only_if_enough_of_it_was_observed():
    image = np.full((20, 20), 7.0)
    mask = np.ones(image.shape, bool)
    mask[:2, :10] = False
    restored = inpaint_image(image, mask)
    assert np.all(restored.image == 7.0)
    assert np.all(restored.sd == 0.0)
    mask[:2, 1:10] = True
    restored = inpaint_image(image, mask)
    assert np.all(restored.image == 7.0)
    np.testing.assert_array_equal(np.isnan(restored.sd), mask)


def test_components_of_one_intensity_do_no_harm():
    image = np.full((20, 24), 255.0)
    image[:, 16:] = mosaic()[:20, :8]
    mask = np.random.default_rng(0).random(image.shape) < 0.4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restored = inpaint_image(image, mask, patch=2, random_state=0)
    flat = mask.copy()
    flat[:, 14:] = False
    np.testing.assert_allclose(restored.image[flat], 255.0, atol=0.5)


def test_a_hot_pixel_spoils_nothing_but_itself():
    image = mosaic(32, 32)
    mask = np.random.default_rng(0).random(image.shape) < 0.3
    options = {"patch": 4, "n_mixture": 2, "random_state": 0}
    calm = inpaint_image(image, mask, **options)
    y, x = np.argwhere(~mask[5:-5, 5:-5])[40] + 5
    image[y, x] = 1e6
    with pytest.warns(ImpulseNoiseWarning, match=f"row {y}, column {x}"):
        hot = inpaint_image(image, mask, **options)
    assert hot.image[y, x] == 1e6
    assert hot.sd[y, x] == 0.0
    assert np.abs(hot.image - calm.image)[mask].mean() < 0.2 * calm.sd[mask].mean()
    assert hot.sd.max() < 2 * calm.sd.max()


def test_no_standard_deviation_is_beyond_reason():
    for seed in range(6):
        image = mosaic(seed=seed)[:6, 20:26]
        mask = np.random.default_rng(seed).random(image.shape) < 0.4
        restored = inpaint_image(image, mask, patch=2, random_state=0)
        assert restored.sd.max() <= 2.001 * image[~mask].std()


@pytest.mark.parametrize(
    "options", [{}, {"model": "ppca"}, pytest.param({"sigma": 4.0}, marks=pytest.mark.slow)]
)
def test_the_number_of_threads_does_not_show(options):
    image = np.stack([mosaic(24, 28), mosaic(24, 28, 1)], axis=2)
    mask = np.random.default_rng(0).random(image.shape) < 0.6
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(
                inpaint_image(image, mask, n_mixture=3, opacity=False, random_state=0, **options)
            )
    np.testing.assert_array_equal(results[0].image, results[1].image)
    np.testing.assert_array_equal(results[0].sd, results[1].sd)
