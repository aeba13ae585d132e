"""Mixtures under bad input, dying and collapsing components: told or mended, never NaN."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from eigengap.estimators.mixture_ppca import MixturePPCA
from eigengap.exceptions import DroppedComponentWarning, NoiseFloorWarning
from eigengap.fitting.mixture.fit import Fitting, MixtureOptions
from eigengap.fitting.mixture.problem import DeadComponentError, MixtureProblem
from eigengap.sources.conversion import as_source
from eigengap.statistics.expected.gaussian import Parameters
from eigengap.statistics.expected.mixture import MixtureParameters
from eigengap.statistics.moments import ColumnMoments


def two_clusters(n=100, d=4, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    loadings = rng.normal(size=(2, d))
    X = 8.0 * labels[:, None] + loadings[labels] * rng.normal(size=(n, 1))
    X += 0.3 * rng.normal(size=(n, d))
    X[rng.random(X.shape) < missing] = np.nan
    return X, labels


def assert_finite(model, X):
    for values in (
        model.weights_,
        model.means_,
        model.covariances_,
        model.transform(X),
        model.predict_proba(X),
        model.score_samples(X),
        *model.impute(X, return_std=True),
        next(model.sample_imputations(X, 1, random_state=0)),
    ):
        assert np.all(np.isfinite(values))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_more_components_than_rows():
    with pytest.raises(ValueError, match=r"n_mixture=6 components .* n_samples=5 rows"):
        MixturePPCA(6, 1).fit(np.random.default_rng(0).normal(size=(5, 3)))


def test_more_latent_dimensions_than_columns():
    with pytest.raises(ValueError, match="n_components=4 must be at most 3"):
        MixturePPCA(2, [1, 4]).fit(np.random.default_rng(0).normal(size=(20, 3)))


@pytest.mark.parametrize(
    ("ranks", "said"), [([1, 1, 1], "lists 3 .* n_mixture=2"), ([1, -1], "0 or more")]
)
def test_ranks_that_do_not_fit_the_components(ranks, said):
    with pytest.raises(ValueError, match=said):
        MixturePPCA(2, ranks).fit(np.random.default_rng(0).normal(size=(20, 3)))


def test_equal_rows_have_no_density():
    with pytest.raises(ValueError, match="all rows are equal"):
        MixturePPCA(2, 1).fit(np.ones((10, 3)))


def test_too_few_steps_are_told():
    X, _ = two_clusters()
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = MixturePPCA(2, 1, max_iter=1, tol=1e-12, random_state=0).fit(X)
    assert not model.converged_


def test_a_column_that_one_cluster_never_shows():
    """The likelihood does not depend on it there; the others' regression stands in."""
    X, labels = two_clusters()
    X[labels == 1, 2] = np.nan
    model = MixturePPCA(2, 1, tol=1e-7, random_state=0).fit(X)
    assert_finite(model, X)
    assert model.converged_
    told_apart = model.predict(X)[~np.isnan(X).all(axis=1)]
    of_them = labels[~np.isnan(X).all(axis=1)]
    assert len(set(zip(told_apart.tolist(), of_them.tolist(), strict=True))) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseFloorWarning)  # three columns, one factor: Heywood
        alone = MixturePPCA(2, 1, noise="diagonal", random_state=0).fit(X)
    assert_finite(alone, X)


def test_rows_and_blocks_without_any_value():
    X, _ = two_clusters()
    X[:10] = np.nan
    with_empty = MixturePPCA(2, 1, tol=1e-8, random_state=0).fit(X)
    without = MixturePPCA(2, 1, tol=1e-8, random_state=0).fit(X[10:])
    assert_finite(with_empty, X)
    assert with_empty.log_likelihood_ == pytest.approx(without.log_likelihood_, abs=1e-4)


def problem_of(X):
    source = as_source(X)
    columns = source.reduce(ColumnMoments.of)
    return MixtureProblem.of(source, columns, 1, "isotropic", shared_noise=False)


def test_a_component_without_rows_is_born_again():
    X, _ = two_clusters(missing=0.1)
    problem = problem_of(X)
    everywhere = Parameters(W=np.full((4, 1), 0.3), delta=np.zeros(4), psi=np.full(4, 0.5))
    nowhere = Parameters(W=np.full((4, 1), 0.1), delta=np.full(4, 50.0), psi=np.full(4, 0.01))
    start = MixtureParameters(np.log([0.5, 0.5]), (everywhere, nowhere))
    with pytest.raises(DeadComponentError):
        problem.run(start, MixtureOptions(tol=1e-3, max_iter=50))
    settled = Fitting(problem, MixtureOptions())._loose(start)
    assert settled.reborn >= 1
    assert settled.parameters.K == 2
    weights = np.exp(settled.parameters.log_weights)
    np.testing.assert_allclose(weights, 0.5, atol=0.02)


def test_components_that_cannot_live_are_dropped_and_told():
    """Two distinct rows, however often they occur, are two components at most."""
    X = np.repeat([[0.0, 0.0, 1.0], [5.0, 2.0, 1.0]], 20, axis=0)
    with pytest.warns((DroppedComponentWarning, NoiseFloorWarning)) as told:
        model = MixturePPCA(4, 1, random_state=0).fit(X)
    assert any(issubclass(w.category, DroppedComponentWarning) for w in told)
    assert model.n_mixture_ <= 2
    assert_finite(model, X)


def test_an_outlier_gets_no_component_of_its_own():
    X, _ = two_clusters()
    X[0] = 300.0
    model = MixturePPCA(2, 1, random_state=0).fit(X)
    assert_finite(model, X)
    assert model.component_rows_.min() > 2.0


def test_a_collapse_onto_the_floor_is_told():
    """Rows without noise: each cluster lies on a line."""
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 2
    X = rng.normal(size=(60, 1)) * np.array([[1.0, 2.0, 3.0], [1.0, -1.0, 0.0]])[labels]
    X += 20.0 * labels[:, None]
    with pytest.warns(NoiseFloorWarning, match="component 0, 1"):
        model = MixturePPCA(2, 1, random_state=0).fit(X)
    assert_finite(model, X)
    np.testing.assert_allclose(model.reconstruct(X), X, atol=1e-2)


@pytest.mark.parametrize("apart", [1e2, 1e4, 1e6])
def test_clusters_far_apart_keep_their_noise(apart):
    """Distances from the common mean are not where the digits of the noise are lost."""
    rng = np.random.default_rng(2)
    labels = np.arange(300) % 2
    X = rng.normal(size=(300, 3)) @ np.diag([2.0, 1.0, 1.0]) + apart * labels[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MixturePPCA(2, 1, random_state=0).fit(X)
    for k in range(2):
        at = labels == labels[np.flatnonzero(model.predict(X) == k)[0]]
        S = np.cov(X[at].T, bias=True)
        lam = np.linalg.eigvalsh(S)
        assert model.noise_variance_[k] == pytest.approx(lam[:2].mean(), rel=1e-3)


def test_a_large_offset_changes_nothing():
    X, _ = two_clusters()
    one = MixturePPCA(2, 1, tol=1e-7, random_state=0).fit(X)
    other = MixturePPCA(2, 1, tol=1e-7, random_state=0).fit(X + 1e6)
    np.testing.assert_allclose(other.means_ - 1e6, one.means_, atol=1e-4)
    np.testing.assert_allclose(other.covariances_, one.covariances_, atol=1e-4)


def test_infinity_is_named():
    X, _ = two_clusters()
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="row 3"):
        MixturePPCA(2, 1).fit(X)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_hardly_more_rows_than_components(noise):
    """Every model fits such a table exactly: there is an answer, told to mean little."""
    X = np.random.default_rng(3).normal(size=(5, 8))
    X[0, :3] = np.nan
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = MixturePPCA(4, 3, noise=noise, random_state=0, max_iter=200).fit(X)
    assert {w.category for w in told} & {NoiseFloorWarning, DroppedComponentWarning}
    assert_finite(model, X)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@pytest.mark.parametrize("missing", [False, True])
def test_one_column_without_latent_dimensions_is_a_mixture_of_gaussians(noise, missing):
    """Against scikit-learn's, from the same clusters."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(40, 1)), rng.normal(size=(30, 1)) + 6.0])
    table = np.vstack([X, np.full((3, 1), np.nan)]) if missing else X
    model = MixturePPCA(2, 0, noise=noise, random_state=0).fit(table)
    truth = GaussianMixture(2, covariance_type="full", tol=1e-9, reg_covar=0.0, max_iter=2000)
    assert model.score(X) == pytest.approx(truth.fit(X).score(X), abs=1e-4)
