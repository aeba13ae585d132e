"""What is learned of incomplete patches, one step of EM at a time, against the dense textbook."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from eigengap.images.arguments import settings
from eigengap.images.gaussians import (
    Gaussian,
    IncompletePatches,
    Recipe,
    _eta,
    _stepped,
    _updated,
    deviances,
    fit_gaussians,
    moments,
    responsibilities,
)
from eigengap.images.imputation import Known, _known, _scale, impute, tried

D = 4


@pytest.fixture
def patches() -> IncompletePatches:
    """300 rows of 4 correlated entries about (1, 2, 3, 4), of which 40 % are unseen."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, D)) @ rng.normal(size=(D, D)) + np.arange(1.0, D + 1)
    rows[rng.random(rows.shape) < 0.4] = np.nan
    return IncompletePatches.of(rows)


def gaussians() -> list[Gaussian]:
    rng = np.random.default_rng(1)
    found = []
    for k, weight in enumerate((0.2, 0.5, 0.3)):
        A = rng.normal(size=(D, D))
        found.append(Gaussian(np.log(weight), rng.normal(k, 1.0, D), A @ A.T + 0.5 * np.eye(D)))
    return found


def dense_step(patches: IncompletePatches, resp, one: Gaussian, sigma2: float):
    """Mean and covariance of the M-step of EM, row by row (Ghahramani and Jordan 1994)."""
    means, covs = [], []
    for x, o in zip(patches.values, patches.observed, strict=True):
        gain = one.C[:, o] @ np.linalg.inv(one.C[np.ix_(o, o)] + sigma2 * np.eye(o.sum()))
        means.append(one.mu + gain @ (x[o] - one.mu[o]))
        covs.append(one.C - gain @ one.C[o])
    mean = np.average(means, axis=0, weights=resp)
    centred = np.array(means) - mean
    C = np.average(covs, axis=0, weights=resp) + (centred.T * resp) @ centred / resp.sum()
    return mean, C


@pytest.mark.parametrize("sigma2", [0.0, 0.3])
def test_responsibilities_are_bayes_rule(patches, sigma2) -> None:
    joint = np.empty((len(patches), 3))
    for k, one in enumerate(gaussians()):
        for i, (x, o) in enumerate(zip(patches.values, patches.observed, strict=True)):
            cov = one.C[np.ix_(o, o)] + sigma2 * np.eye(o.sum())
            density = multivariate_normal(one.mu[o], cov).pdf(x[o]) if o.any() else 1.0
            joint[i, k] = np.exp(one.log_weight) * density
    expected = joint / joint.sum(axis=1, keepdims=True)
    found = responsibilities(deviances(patches, gaussians(), sigma2))
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert found.std(axis=0).min() > 0.05  # rows differ


@pytest.mark.parametrize("sigma2", [0.0, 0.3])
def test_a_step_is_the_dense_em(patches, sigma2) -> None:
    one = gaussians()[0]
    weight = np.random.default_rng(2).random(len(patches))
    mean, C = dense_step(patches, weight, one, sigma2)
    sums = moments(patches, weight, one, sigma2)
    found = _updated(one, sums, np.eye(D), 0.0, len(patches), None, 1.0)
    np.testing.assert_allclose(found.mu, mean, rtol=1e-9)
    np.testing.assert_allclose(found.C, C, rtol=1e-9)
    assert np.exp(found.log_weight) == pytest.approx(weight.sum() / len(patches))
    assert np.abs(mean - one.mu).max() > 0.5  # so that squares about the old mean would show


def test_steps_go_further_by_the_share_that_is_missing(patches) -> None:
    """And with nu patches of a shape, scaled to the size of the component."""
    one = replace(gaussians()[0], log_weight=0.0)
    mean, C = dense_step(patches, np.ones(len(patches)), one, 0.0)
    eta = 1.0 + float(np.mean(~patches.observed))
    assert _eta(patches) == pytest.approx(eta)
    shape = gaussians()[1].C
    n, nu = len(patches), D / 2.0
    prior = (n * C + nu * np.trace(C) / np.trace(shape) * shape) / (n + nu)
    (found,) = _stepped(patches, [one], shape, Recipe(1, None, 1, 0.0))
    np.testing.assert_allclose(found.mu, one.mu + eta * (mean - one.mu), rtol=1e-9)
    np.testing.assert_allclose(found.C, one.C + eta * (prior - one.C), rtol=1e-9, atol=1e-9)


def test_covariances_of_patches_in_a_plane_stay_regular() -> None:
    """Rows that vary along one axis alone: no eigenvalue falls below the floor."""
    rng = np.random.default_rng(3)
    rows = np.outer(rng.normal(size=400), np.ones(D))
    one = Gaussian(0.0, np.zeros(D), np.eye(D))
    complete = IncompletePatches.of(rows)
    sums = moments(complete, np.ones(400), one, 0.0)
    found = _updated(one, sums, np.eye(D), 0.0, 400, None, 1.0)
    lam = np.linalg.eigvalsh(found.C)
    size = np.mean(np.var(rows, axis=0))
    assert 1e-4 * size < lam[0] < 1e-3 * size
    assert lam[-1] == pytest.approx(D * size, rel=0.01)
    for single in fit_gaussians(complete, rows, 1, Recipe(3, None, 5, 0.0), rng):
        assert np.linalg.eigvalsh(single.C)[0] > 0.0


def how(shape=(48, 48, 1)):
    return settings(shape, 4, 1, "mixture", 4, "auto", 0)


def field(n=48):
    y, x = np.mgrid[:n, :n]
    return (np.sin(x / 4.0) + np.cos(y / 5.0))[..., None]


def test_held_out_entries_are_kept_from_learning() -> None:
    values = field()
    values[np.random.default_rng(0).random(values.shape) < 0.3] = np.nan
    known = Known(values, np.zeros(values.shape), 0.0)
    told = []

    def learn(observed):
        told.append(observed)
        return [Gaussian(0.0, np.zeros(16), np.eye(16))]

    tried(known, learn, how())
    kept_back = np.isnan(told[0]) & ~np.isnan(values)
    share = kept_back.sum() / np.sum(~np.isnan(values))
    assert len(told) == 1
    assert 0.05 < share < 0.2


def test_noise_of_the_held_out_entries_is_not_an_error_of_what_is_imputed() -> None:
    """A field known far better than any of its noisy entries: deviations are those of the field."""
    rng = np.random.default_rng(0)
    noisy = field() + rng.normal(0.0, 0.5, (48, 48, 1))
    missing = rng.random(noisy.shape) < 0.3
    imputed = impute(np.where(missing, np.nan, noisy), how(), 0.5)
    error = np.abs(imputed.values - field())[missing]
    assert 1.0 <= imputed.scale < 1.5
    assert np.median(imputed.sd[missing]) < 0.45 < 0.5
    assert np.mean(error <= 1.96 * imputed.sd[missing]) > 0.9


@pytest.mark.parametrize(("n", "rank"), [(20, 20), (39, 38), (40, 39), (100, 96)])
def test_the_scale_counts_the_one_that_is_to_come(n, rank) -> None:
    """The ceil(0.95 (n + 1))-th smallest (Lei and others 2018)."""
    z = np.random.default_rng(0).permutation(np.arange(1.0, n + 1))
    assert _scale(z) == pytest.approx(rank / 1.959964)


def test_what_a_coarse_image_tells_is_as_uncertain_as_the_detail_it_lacks() -> None:
    """White texture: means of 2 x 2 say little of a pixel, whose deviation is nearly 1."""
    values = np.random.default_rng(0).normal(size=(64, 64, 1))
    values[20:44, 20:44] = np.nan
    known = _known(values, settings(values.shape, 4, 1, "mixture", 4, "auto", 0), 0.0)
    doubtful = known.doubt[known.doubt > 0.0]
    assert len(doubtful) > 200
    assert 0.8 < np.median(doubtful) < 1.6
