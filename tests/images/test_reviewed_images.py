"""Cases of a hostile review of the restoration of images: each failed, hung or misled before."""

from __future__ import annotations

import struct
import time
import zlib

import numpy as np
import pytest
from PIL import Image
from scipy.stats import multivariate_normal

from eigengap.exceptions import ImpulseNoiseWarning, UnreadableError
from eigengap.images import denoise_image, inpaint_image, read_image
from eigengap.images.mixture import (
    STEPS,
    Component,
    PatchMixture,
    _component,
    fit_mixture,
    unbiased,
)


def scene(h=40, w=44, noise=10.0):
    y, x = np.mgrid[:h, :w]
    rng = np.random.default_rng(0)
    return 120.0 + 60.0 * np.sin(x / 5.0) * np.cos(y / 6.0) + rng.normal(0.0, noise, (h, w))


# Images ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [None, 5.0])
@pytest.mark.parametrize("off", [0, 1])
def test_one_colour_of_whole_numbers(sigma, off) -> None:
    solid = np.full((20, 20, 3), [200, 30, 60], np.uint8)
    solid[7, 7, 0] += off
    restored = denoise_image(solid, sigma=sigma, random_state=0)
    assert np.abs(restored.image.astype(int) - solid).max() <= off


@pytest.mark.parametrize(("sigma", "n_mixture"), [(200.0, 16), (1e4, 60), (1e9, 16)])
def test_noise_far_stronger_than_the_image_ends_no_fit(sigma, n_mixture) -> None:
    image = scene(64, 64)
    mask = np.random.default_rng(1).random(image.shape) < 0.3
    options = {"sigma": sigma, "n_mixture": n_mixture, "patch": 4, "random_state": 0}
    restored = inpaint_image(image, mask, **options)
    assert np.isfinite(restored.image).all()
    assert restored.image.std() < image.std()


def test_a_hot_pixel_between_missing_is_found_whichever_way_they_lie() -> None:
    hot = scene(noise=2.0)
    hot[20, 20] = 1e6
    mask = np.zeros(hot.shape, bool)
    mask[20, [19, 21]] = True
    lonely = np.zeros(hot.shape, bool)
    lonely[19:22, 19:22] = True
    lonely[20, 20] = False
    for image, missing in ((hot, mask), (hot.T, mask.T), (hot, lonely)):
        with pytest.warns(ImpulseNoiseWarning, match="row 20, column 20"):
            restored = inpaint_image(image, missing, patch=4, random_state=0)
        assert np.abs(restored.image[missing]).max() < 300.0
        assert restored.image[20, 20] == 1e6


def test_grey_stored_as_colour_is_denoised_where_an_entry_is_missing_too() -> None:
    grey = np.stack([scene()] * 3, axis=2)
    grey[5, 5] = np.nan
    grey[9, 9, 1] = np.nan
    restored = denoise_image(grey, patch=4, random_state=0)
    assert restored.noise_sd == pytest.approx(10.0, rel=0.2)
    assert np.isfinite(restored.image).all()
    clean = scene(noise=0.0)[..., None]
    assert np.std(restored.image - clean) < 0.7 * 10.0


def test_a_channel_that_is_empty_does_not_change_the_noise() -> None:
    rng = np.random.default_rng(0)
    two = np.dstack([scene(64, 64), scene(64, 64, 0.0) + rng.normal(0.0, 10.0, (64, 64))])
    three = np.dstack([two, np.zeros((64, 64))])
    with_empty = denoise_image(three, random_state=0)
    alone = denoise_image(two, opacity=False, random_state=0)
    assert with_empty.noise_sd == pytest.approx(alone.noise_sd, rel=0.03)
    assert with_empty.noise_sd == pytest.approx(10.0, rel=0.05)
    assert np.abs(with_empty.image[..., 2]).max() < 1e-9


def test_more_components_than_agreeing_channels_have_entries() -> None:
    grey = np.stack([scene()] * 3, axis=2)
    restored = denoise_image(grey, n_components=100, random_state=0)
    assert max(restored.ranks) <= 64


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_the_smallest_images_by_one_ppca(shape) -> None:
    image = np.arange(float(np.prod(shape))).reshape(shape)
    image[0, 0] = np.nan
    assert np.isfinite(inpaint_image(image, model="ppca", random_state=0).image).all()


def test_infinite_opacity_stays_as_it_is() -> None:
    image = np.dstack([scene(), scene(), scene(), np.full((40, 44), np.inf)])
    image[4, 4, :3] = np.nan
    restored = inpaint_image(image, patch=4, random_state=0)
    assert np.isinf(restored.image[..., 3]).all()
    assert np.isfinite(restored.image[..., :3]).all()


# The mixture in noise ------------------------------------------------------------------------


def test_log_joint_of_several_components_is_the_dense_density() -> None:
    rng = np.random.default_rng(0)
    d, components = 5, []
    for weight, q, rest in ((0.7, 1, 0.5), (0.2, 2, 0.9), (0.1, 3, 0.5)):
        U = np.linalg.qr(rng.normal(size=(d, q)))[0]
        lam = np.sort(rng.uniform(2.0, 6.0, q))[::-1]
        components.append(Component(np.log(weight), 100.0, rng.normal(size=d), U, lam, rest))
    X = rng.normal(size=(30, d)) * 1.5
    dense = np.empty((30, 3))
    for k, one in enumerate(components):
        C = one.U * (one.lam - one.rest) @ one.U.T + one.rest * np.eye(d)
        dense[:, k] = one.log_weight + multivariate_normal(one.mu, C).logpdf(X)
    found = PatchMixture(tuple(components), 0.5).log_joint(X)
    np.testing.assert_allclose(found - dense, (found - dense)[0, 0], atol=1e-9)


def test_a_component_is_the_spectrum_of_its_patches() -> None:
    """Axes above the edge put back to where they were, and the mean of the others as they are."""
    rng = np.random.default_rng(1)
    n, d, sigma2 = 4000, 20, 1.0
    sd = np.sqrt(np.r_[9.0, 5.0, np.full(d - 2, 1.3)])  # 0.3 beyond the noise, below the edge
    X = rng.normal(size=(n, d)) * sd + 3.0
    found = _component(X, np.ones(n), float(n), n, sigma2, 2)
    lam = np.linalg.eigvalsh(np.cov(X.T, ddof=0))[::-1]
    np.testing.assert_allclose(found.lam, unbiased(lam[:2], sigma2, d / n), rtol=1e-9)
    assert np.all(found.lam < lam[:2])
    assert found.rest == pytest.approx(lam[2:].mean(), rel=1e-9)
    np.testing.assert_allclose(found.mu, X.mean(axis=0), rtol=1e-9)


def test_steps_of_em_raise_the_likelihood() -> None:
    """Two kinds of patches that differ in their axes, not in their means: k-means is no help."""
    rng = np.random.default_rng(2)
    z = 3.0 * rng.normal(size=(2, 1500, 1))
    axes = np.linalg.qr(rng.normal(size=(8, 2)))[0]
    X = np.concatenate([z[0] * axes[:, 0], z[1] * axes[:, 1]])
    X += 0.5 * rng.normal(size=X.shape)

    def likelihood(steps):
        mixture = fit_mixture(X, 0.25, 2, None, np.random.default_rng(0), steps)
        return np.mean(np.logaddexp.reduce(mixture.log_joint(X), axis=1))

    trace = [likelihood(steps) for steps in (0, 1, 3, 12)]
    assert np.all(np.diff(trace) > 0.0)
    assert trace[-1] > trace[0] + 0.03
    assert likelihood(STEPS) > trace[0] + 0.03


# Files ---------------------------------------------------------------------------------------


def tiff(fields: dict[int, tuple[str, list[int]]], data: bytes) -> bytes:
    """A little-endian TIFF with this directory, whose values of over 4 bytes follow it."""
    start = 8 + len(data)
    after = start + 2 + 12 * len(fields) + 4
    entries, more = b"", b""
    for tag, (kind, values) in sorted(fields.items()):
        packed = struct.pack(f"<{len(values)}{kind}", *values)
        place = packed.ljust(4, b"\0")
        if len(packed) > 4:
            place, more = struct.pack("<I", after + len(more)), more + packed
        entries += struct.pack("<HHI", tag, {"H": 3, "I": 4}[kind], len(values)) + place
    directory = struct.pack("<H", len(fields)) + entries + struct.pack("<I", 0)
    return b"II*\0" + struct.pack("<I", start) + data + directory + more


def grey(w: int, h: int, compression: int, **more: list[int]) -> dict[int, tuple[str, list[int]]]:
    return {
        256: ("I", [w]), 257: ("I", [h]), 258: ("H", [8]), 259: ("H", [compression]),
        262: ("H", [1]), 277: ("H", [1]), **more,
    }  # fmt: skip


@pytest.mark.parametrize("compression", [1, 8])
def test_strips_that_are_the_whole_file_over_and_over_are_refused_at_once(
    tmp_path, compression
) -> None:
    n, data = 20_000, zlib.compress(b"\0" * 200_000)
    fields = grey(1, n, compression)
    fields |= {273: ("I", [8] * n), 278: ("I", [1]), 279: ("I", [300_000] * n)}
    (tmp_path / "a.tif").write_bytes(tiff(fields, data))
    began = time.process_time()
    with pytest.raises(UnreadableError, match="again and again"):
        read_image(tmp_path / "a.tif")
    assert time.process_time() - began < 5.0  # it took minutes


def test_a_tiff_that_unpacks_to_gigabytes_is_refused_as_a_png_is(tmp_path) -> None:
    data = zlib.compress(b"\0" * 10_000)
    fields = grey(50_000, 50_000, 8)
    fields |= {273: ("I", [8]), 278: ("I", [50_000]), 279: ("I", [len(data)])}
    padded = tiff(fields, data + b"\0" * 2_500_000)  # so that the size is not impossible
    (tmp_path / "a.tif").write_bytes(padded)
    with pytest.raises(UnreadableError, match="MAX_IMAGE_PIXELS"):
        read_image(tmp_path / "a.tif")


def test_sizes_that_no_such_file_can_have_are_refused_by_us(tmp_path) -> None:
    data = zlib.compress(b"\0" * 1000)
    fields = grey(9_000, 9_000, 8)
    fields |= {273: ("I", [8]), 278: ("I", [9_000]), 279: ("I", [len(data)])}
    (tmp_path / "a.tif").write_bytes(tiff(fields, data))
    with pytest.raises(UnreadableError, match="more pixels than its bytes can hold"):
        read_image(tmp_path / "a.tif")


@pytest.mark.filterwarnings("ignore:.*the first is read")
def test_damaged_animations_are_told_as_such(tmp_path) -> None:
    frames = [Image.fromarray(np.full((9, 9), k, np.uint8)) for k in (10, 200, 90)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:], duration=50)
    whole = (tmp_path / "a.gif").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(400):
        cut = bytearray(whole[: rng.integers(20, len(whole))])
        for at in rng.integers(6, len(cut), 3):
            cut[at] = rng.integers(256)
        (tmp_path / "b.gif").write_bytes(bytes(cut))
        try:
            read_image(tmp_path / "b.gif")
        except UnreadableError:
            continue
