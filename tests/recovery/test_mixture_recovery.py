"""Mixtures find the clusters, ranks and cells that made the data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from eigengap import PPCA, LinearGaussian
from eigengap.estimators.mixture_ppca import MixturePPCA
from eigengap.linalg import principal_angles
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians


def truth(seed, ranks, d=15, apart=1.0, noise=0.5):
    rng = np.random.default_rng(seed)
    models = [
        LinearGaussian(
            W=rng.normal(size=(d, q)), mu=apart * rng.normal(size=d), psi=np.full(d, noise**2)
        )
        for q in ranks
    ]
    return MixtureOfLinearGaussians(np.zeros(len(ranks)), models), rng


def matched(model, labels, X, k):
    """The fitted component that holds most rows of cluster k."""
    return int(np.bincount(model.predict(X)[labels == k]).argmax())


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_separate_clusters_are_found_with_a_third_of_the_cells_missing(noise):
    mixture, rng = truth(0, (2, 2, 2), apart=2.0)
    complete, labels = mixture.sample(600, rng)
    X = np.where(rng.random(complete.shape) < 0.3, np.nan, complete)
    model = MixturePPCA(3, 2, noise=noise, random_state=0).fit(X)
    assert adjusted_rand_score(labels, model.predict(X)) > 0.99
    for k, made_by in enumerate(mixture.models):
        found = model.model_.models[matched(model, labels, X, k)]
        np.testing.assert_allclose(found.mu, made_by.mu, atol=0.5)
        assert principal_angles(found.W, made_by.W)[0] < 0.25
        np.testing.assert_allclose(np.mean(found.psi), 0.25, atol=0.04)


def test_clusters_that_differ_in_direction_alone_are_found():
    """The same mean: k-means sees nothing, the likelihood does."""
    mixture, rng = truth(1, (1, 1), d=10, apart=0.0, noise=0.2)
    X, labels = mixture.sample(600, rng)
    model = MixturePPCA(2, 1, n_init=4, random_state=0).fit(X)
    assert adjusted_rand_score(labels, model.predict(X)) > 0.8


@pytest.mark.parametrize("missing", [0.0, pytest.param(0.3, marks=pytest.mark.slow)])
def test_ranks_are_found_for_each_component(missing):
    mixture, rng = truth(1, (1, 3, 5))
    X, labels = mixture.sample(900, rng)
    X[rng.random(X.shape) < missing] = np.nan
    model = MixturePPCA(3, "auto", random_state=0).fit(X)
    found = [model.n_components_[matched(model, labels, X, k)] for k in range(3)]
    assert found == [1, 3, 5]


def test_given_ranks_go_to_the_clusters_that_have_them():
    mixture, rng = truth(2, (4, 1))
    X, labels = mixture.sample(500, rng)
    for ranks in ([4, 1], [1, 4]):
        model = MixturePPCA(2, ranks, random_state=0).fit(X)
        assert [model.n_components_[matched(model, labels, X, k)] for k in range(2)] == [4, 1]


def test_cells_of_clusters_are_filled_better_than_by_one_model():
    mixture, rng = truth(3, (1, 1, 1), d=8, apart=2.0)
    complete, _ = mixture.sample(600, rng)
    hidden = rng.random(complete.shape) < 0.3
    X = np.where(hidden, np.nan, complete)
    mixed = MixturePPCA(3, 1, random_state=0).fit(X)
    single = PPCA("auto").fit(X)
    filled, std = mixed.impute(X, return_std=True)
    error = np.sqrt(np.mean((filled - complete)[hidden] ** 2))
    assert error < 0.8 * np.sqrt(np.mean((single.impute(X) - complete)[hidden] ** 2))
    # Not normal where several components are probable, yet nearly all within two.
    within = np.abs(filled - complete)[hidden] < 1.96 * std[hidden]
    assert 0.93 < within.mean() < 0.97


def test_the_number_of_clusters_has_the_smallest_bic():
    mixture, rng = truth(4, (1, 1, 1), d=6, apart=2.0)
    X, _ = mixture.sample(400, rng)
    X[rng.random(X.shape) < 0.1] = np.nan
    bic = [MixturePPCA(K, 1, random_state=0).fit(X).bic(X) for K in (1, 2, 3, 4)]
    assert int(np.argmin(bic)) + 1 == 3
