"""Patches, the pyramid and the kernels, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from eigengap.compiled import subsets
from eigengap.images.gaussians import (
    Gaussian,
    IncompletePatches,
    conditional,
    deviances,
    moments,
)
from eigengap.images.imputation import doubled, halved, out_of_reach, pull_push
from eigengap.images.noise import noise_eigenvalue
from eigengap.images.patches import Canvas, corners, patches_at


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(9, 7, 3), (4, 11, 1)])
def test_patches_put_together_are_the_image(shape, stride):
    rng = np.random.default_rng(0)
    image = rng.normal(size=shape)
    y, x = corners(shape[0], shape[1], 4, stride)
    patches = patches_at(image, y, x, 4)
    for i, (a, b) in enumerate(zip(y, x, strict=True)):
        np.testing.assert_array_equal(patches[i].reshape(4, 4, -1), image[a : a + 4, b : b + 4])
    canvas = Canvas(shape, 4)
    canvas.add(patches, rng.uniform(0.1, 9.0, patches.shape), y, x)
    np.testing.assert_allclose(canvas.mean(), image)


def test_overlaps_are_averaged_by_precision():
    canvas = Canvas((2, 3, 1), 2)
    values = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    precision = np.array([[1.0, 3.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    canvas.add(values, precision, np.array([0, 0]), np.array([0, 1]))
    expected = [[1.0, (3 * 2 + 5) / 4, 6.0], [3.0, (3 * 4 + 7) / 4, 8.0]]
    np.testing.assert_allclose(canvas.mean()[..., 0], expected)
    np.testing.assert_allclose(canvas.variance()[0, :, 0], [1.0, 2 / 4, 1.0])


def test_half_and_double_size():
    y, x = np.mgrid[:8, :12].astype(float)
    plane = (2.0 * y + x)[..., None]
    small = halved(plane)
    np.testing.assert_allclose(small[1, 2, 0], plane[2:4, 4:6].mean())
    back = doubled(small, 8, 12)
    np.testing.assert_allclose(back[1:-1, 1:-1], plane[1:-1, 1:-1])  # linear is exact inside
    plane[2:4, 4:6] = np.nan
    assert np.isnan(halved(plane)[1, 2, 0])
    plane[2, 4] = 7.0
    assert halved(plane)[1, 2, 0] == 7.0


def test_pull_push_fills_everything_and_keeps_what_was_observed():
    rng = np.random.default_rng(1)
    image = rng.normal(size=(13, 10, 2))
    incomplete = np.where(rng.random(image.shape) < 0.9, np.nan, image)
    filled = pull_push(incomplete)
    observed = ~np.isnan(incomplete)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[observed], image[observed])
    assert filled.max() <= incomplete[observed].max()
    assert filled.min() >= incomplete[observed].min()


def test_what_no_patch_sees():
    rng = np.random.default_rng(2)
    image = rng.normal(size=(20, 23, 1))
    image[4:16, 5:19] = np.nan
    p, least = 5, 2.0
    found = out_of_reach(image, p)
    for y, x in np.ndindex(20, 23):
        best = max(
            np.isfinite(image[a : a + p, b : b + p]).sum()
            for a in range(max(y - p + 1, 0), min(y, 20 - p) + 1)
            for b in range(max(x - p + 1, 0), min(x, 23 - p) + 1)
        )
        assert found[y, x, 0] == (np.isnan(image[y, x, 0]) and best < least)
    assert found.any()


@pytest.fixture
def incomplete_rows():
    rng = np.random.default_rng(3)
    d = 9
    F = rng.normal(size=(d, 20))
    one = Gaussian(-0.5, rng.normal(size=d), F @ F.T / 20 + 0.05 * np.eye(d))
    X = rng.normal(size=(40, d)) * 1.5
    X[rng.random(X.shape) < rng.choice([0.1, 0.8], (40, 1))] = np.nan
    X[3] = np.nan  # nothing seen
    X[4] = 1.0  # all seen
    return X, one


@pytest.mark.parametrize("sigma2", [0.0, 0.3])
def test_conditioning_is_the_textbooks(incomplete_rows, sigma2):
    X, one = incomplete_rows
    patches = IncompletePatches.of(X)
    found = conditional(patches, one, sigma2)
    deviance = deviances(patches, [one], sigma2)[:, 0]
    A = one.C + sigma2 * np.eye(9)
    total, first, second = 0.0, np.zeros(9), np.zeros((9, 9))
    weight = np.linspace(0.2, 1.0, len(X))
    for i, x in enumerate(X):
        o = np.flatnonzero(~np.isnan(x))
        r = x[o] - one.mu[o]
        gain = one.C[:, o] @ np.linalg.inv(A[np.ix_(o, o)])
        mean, cov = one.mu + gain @ r, one.C - gain @ one.C[o]
        np.testing.assert_allclose(found.mean[i], mean, atol=1e-9)
        np.testing.assert_allclose(found.variance[i], np.diag(cov), atol=1e-9)
        log_det = np.linalg.slogdet(A[np.ix_(o, o)])[1]
        expected = r @ np.linalg.solve(A[np.ix_(o, o)], r) + log_det + 1.0 if len(o) else 1.0
        np.testing.assert_allclose(deviance[i], expected, atol=1e-9)
        total += weight[i]
        first += weight[i] * (mean - one.mu)
        second += weight[i] * (cov + np.outer(mean - one.mu, mean - one.mu))
    sums = moments(patches, weight, one, sigma2)
    np.testing.assert_allclose(sums.weight, total)
    np.testing.assert_allclose(sums.first, first, atol=1e-9)
    np.testing.assert_allclose(sums.second, second, atol=1e-8)


@pytest.mark.parametrize("explained", [False, True])
def test_kernels_agree_with_their_twin(monkeypatch, explained):
    rng = np.random.default_rng(4)
    F = rng.normal(size=(11, 30))
    A, B = F @ F.T / 30 + 0.1 * np.eye(11), rng.normal(size=(600, 11))
    sets = rng.random((600, 11)) < rng.random((600, 1))
    weight = rng.random(600)
    results = []
    for mode in ("always", "never"):
        monkeypatch.setenv("EIGENGAP_COMPILED", mode)
        results.append(
            [
                *subsets.forms(A, B, sets),
                *subsets.solutions(A, B, sets, weight, explained=explained),
            ]
        )
    for compiled, twin in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, twin, atol=1e-9)


@pytest.mark.parametrize("mode", ["always", "never"])
def test_a_matrix_that_is_not_positive_is_refused(monkeypatch, mode):
    monkeypatch.setenv("EIGENGAP_COMPILED", mode)
    A = np.diag([1.0, -1.0, 1.0])
    sets = np.array([[True, False, True], [True, True, False]])
    with pytest.raises(np.linalg.LinAlgError, match="row 1"):
        subsets.solutions(A, np.ones((2, 3)), sets)
    with pytest.raises(np.linalg.LinAlgError, match="row 1"):
        subsets.forms(A, np.ones((2, 3)), sets)


def test_noise_eigenvalue_of_spikes_on_a_flat_floor():
    flat = np.linspace(1.05, 0.95, 40)
    assert noise_eigenvalue(np.concatenate([[90.0, 30.0, 7.0], flat])) == pytest.approx(1.0)
    assert noise_eigenvalue(np.array([3.0])) == 3.0
