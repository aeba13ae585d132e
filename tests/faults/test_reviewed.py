"""Cases in which an earlier version was wrong, each with an oracle that does not share the code."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_wine

import eigengap as eg
from eigengap.fitting.gaussian.noise import fit_by_em
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.sources.conversion import as_source

pytestmark = pytest.mark.filterwarnings("ignore:the noise variance fell to its floor")


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
@pytest.mark.parametrize("q", [3, 6, 8, 10, 12])
def test_one_gap_costs_next_to_nothing(load, q):
    """Columns from 1e-6 to 1e5 in variance: EM must not stop at a saddle, nor at a noise floor."""
    X = load().data
    Y = X.copy()
    Y[0, 1] = np.nan
    whole, incomplete = eg.PPCA(q).fit(X), eg.PPCA(q).fit(Y)
    assert incomplete.converged_
    assert incomplete.score(X) > whole.score(X) - 0.02
    np.testing.assert_allclose(incomplete.noise_variance_, whole.noise_variance_, rtol=0.05)


@pytest.mark.parametrize("q", [3, 4, 8])
def test_factors_with_one_gap_reach_the_complete_solution(q):
    X = load_breast_cancer().data
    Y = X.copy()
    Y[0, 1] = np.nan
    assert eg.FactorAnalysis(q).fit(Y).score(X) > eg.FactorAnalysis(q).fit(X).score(X) - 0.01


@pytest.mark.parametrize("scales", [[100, 3, 2, 1], [1e4, 1, 1, 1e-2], [1, 10, 0.1, 5]])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_em_equals_the_closed_form_on_unlike_columns(scales, q):
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((100, 4)) * scales
        exact = eg.PPCA(q).fit(X).log_likelihood_
        reached = eg.PPCA(q, solver="em").fit(X).log_likelihood_
        np.testing.assert_allclose(reached, exact, rtol=1e-7)


def test_one_large_column_does_not_drown_the_noise_of_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(200, 6))
    X[:, 0] *= 1e5
    Y = X.copy()
    Y[0, 3] = np.nan
    whole, incomplete = eg.PPCA(3).fit(X), eg.PPCA(3).fit(Y)
    np.testing.assert_allclose(incomplete.noise_variance_, whole.noise_variance_, rtol=0.02)
    assert incomplete.impute(Y, return_std=True)[1].max() < 2.0


def test_a_noise_at_its_floor_is_told():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 6))  # no noise at all
    X[rng.random(X.shape) < 0.2] = np.nan
    with pytest.warns(eg.exceptions.NoiseFloorWarning, match="floor"):
        eg.PPCA(2).fit(X)


@pytest.mark.parametrize("given", [0.0, 1e-12, 1e-8, 0.3])
def test_a_given_noise_variance_is_kept(given):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(100, 6))
    X[0, 0] = np.nan
    model = eg.PPCA(2, noise_variance=given).fit(X)
    np.testing.assert_allclose(model.noise_variance_, given, rtol=1e-12)


def test_more_starts_are_never_worse():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(200, 6))
    X[:, 0] *= 1000
    X[0, 1] = np.nan
    one = eg.PPCA(4).fit(X).log_likelihood_
    for n_init in (2, 5, 10):
        more = eg.PPCA(4, n_init=n_init, random_state=0).fit(X).log_likelihood_
        assert more >= one - 1e-6


@pytest.mark.parametrize("noise", [1e-6, 1e-8])
def test_tiny_noise_on_the_krylov_route(noise):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 3)) @ rng.normal(size=(3, 800)) + noise * rng.normal(size=(900, 800))
    model = eg.PCA(3, svd_solver="arpack").fit(X)
    np.testing.assert_allclose(model.noise_variance_, noise**2, rtol=0.02)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
def test_sparse_columns_without_zeros_under_fractional_weights(offset):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 20)) * np.r_[np.full(5, 20), np.ones(15)] + offset
    w = rng.uniform(0, 2, 300)
    dense = eg.PCA(5, scale=True).fit(X, sample_weight=w)
    sparse = eg.PCA(5, scale=True).fit(scipy.sparse.csr_array(X), sample_weight=w)
    np.testing.assert_allclose(sparse.scale_, dense.scale_, rtol=1e-6)
    np.testing.assert_allclose(sparse.explained_variance_, dense.explained_variance_, rtol=1e-6)


def test_scaled_float32_far_from_zero():
    rng = np.random.default_rng(5)
    X = (rng.normal(size=(500, 4)) * [1.4, 2, 3, 5.5] + 1e5).astype(np.float32)
    single, double = (eg.PCA(2, scale=True).fit(x) for x in (X, X.astype(np.float64)))
    np.testing.assert_allclose(single.model_.mu, double.model_.mu, rtol=1e-12)
    np.testing.assert_allclose(single.transform(X), double.transform(X), atol=1e-2)
    np.testing.assert_allclose(single.explained_variance_, double.explained_variance_, rtol=1e-4)


@pytest.mark.parametrize("make", [eg.PCA, eg.PPCA, eg.FactorAnalysis])
def test_a_row_of_weight_zero_is_as_if_absent(make):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 5))
    odd = np.vstack([X, [[np.nan, 1e200, 0, 0, 0]]])
    weight = np.r_[np.ones(40), 0.0]
    a, b = make(2).fit(X), make(2).fit(odd, sample_weight=weight)
    np.testing.assert_allclose(a.get_covariance(), b.get_covariance(), rtol=1e-12, atol=1e-12)
    assert eg.PCA().fit(odd, sample_weight=weight).n_components_ == 5


@pytest.mark.parametrize("make", [eg.PPCA, eg.FactorAnalysis])
def test_weights_are_repetitions_for_the_choice_of_rank_too(make):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(120, 6))
    X[:30][rng.random((30, 6)) < 0.5] = np.nan
    times = np.where(np.arange(120) < 30, 4, 1)
    weighted = make().fit(X, sample_weight=times).rank_choice_
    repeated = make().fit(np.repeat(X, times, axis=0)).rank_choice_
    assert weighted.criteria == repeated.criteria
    for name, curve in weighted.curves.items():
        assert list(curve) == list(repeated.curves[name])
        for q in curve:
            np.testing.assert_allclose(curve[q], repeated.curves[name][q], rtol=1e-4)


def test_auto_does_not_run_into_the_degenerate_likelihood_of_small_incomplete_tables():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        T = rng.normal(size=(50, 5)) @ rng.normal(size=(5, 20)) + 0.5 * rng.normal(size=(50, 20))
        X = np.where(rng.random(T.shape) < 0.2, np.nan, T)
        model = eg.PPCA().fit(X)
        assert model.n_components_ == 5
        assert 0.1 < model.noise_variance_ < 0.4


def test_auto_on_data_without_noise_finds_their_rank():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 8))
    assert eg.PPCA().fit(X).n_components_ == 3
    assert eg.PCA("auto").fit(X).n_components_ == 3


@pytest.mark.parametrize("shape", [(30, 200), (100, 300)])
def test_none_on_wide_tables_is_the_rank(shape):
    for seed in range(10):
        X = np.random.default_rng(seed).normal(size=shape)
        assert eg.PCA().fit(X).n_components_ == shape[0] - 1


@pytest.mark.parametrize("make", [eg.PCA, eg.PPCA, eg.FactorAnalysis])
def test_a_failed_refit_leaves_the_old_model(make):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(30, 6))
    model = make(2).fit(X)
    before = model.transform(X)
    with pytest.raises(ValueError, match="n_components"):
        model.set_params(n_components=5).fit(X[:, :3])
    np.testing.assert_array_equal(model.transform(X), before)


def test_a_fit_without_random_starts_leaves_the_global_generator_alone():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    eg.PPCA(1).fit(np.random.default_rng(0).normal(size=(20, 3)))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_flat_ridge_ends_the_fit_at_its_best_point():
    """Factors of a nearly singular table: the objective stands still, the parameters do not."""
    rng = np.random.default_rng(0)
    X = load_breast_cancer().data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X[rng.random(X.shape) < 0.15] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = fit_by_em(as_source(X), 8, "diagonal", options=EMOptions(max_iter=2000))
    size = max(abs(fit.log_likelihood), np.isfinite(X).sum())
    assert fit.log_likelihood >= fit.trace.objective.max() - 2e-9 * size
