"""What holds for BayesianPCA whatever the data, and on data whose answer is known."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from eigengap import PPCA
from eigengap.estimators.bayesian_pca import BayesianPCA
from eigengap.exceptions import NoiseFloorWarning


def table(n=80, d=10, q=3, missing=0.2, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(d, q)) * np.linspace(2.0, 1.0, q)
    truth = rng.normal(size=(n, q)) @ W.T + 3 * rng.normal(size=d)
    truth += noise * rng.normal(size=(n, d))
    return truth, np.where(rng.random((n, d)) < missing, np.nan, truth)


def bishop(missing=0.0, seed=0):
    """300 x 10, three directions of standard deviation 1 among seven of 0.5, turned."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 10)) * np.where(np.arange(10) < 3, 1.0, 0.5)
    X = X @ np.linalg.qr(rng.normal(size=(10, 10)))[0]
    return np.where(rng.random(X.shape) < missing, np.nan, X)


# The number of components --------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_bishops_example_keeps_three(missing, seed):
    model = BayesianPCA().fit(bishop(missing, seed))
    assert model.n_components_ == 3
    assert model.noise_variance_ == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("n_components", [3, 6, 9, "auto"])
def test_superfluous_components_change_nothing(n_components):
    _, X = table()
    model = BayesianPCA(n_components, tol=1e-7).fit(X)
    assert model.n_components_ == 3
    reference = BayesianPCA(3, tol=1e-7).fit(X)
    assert model.elbo_ == pytest.approx(reference.elbo_, abs=1e-3)
    np.testing.assert_allclose(model.get_covariance(), reference.get_covariance(), atol=1e-3)


def test_more_components_than_the_first_few_are_found():
    _, X = table(n=400, d=40, q=20, missing=0.1)
    assert BayesianPCA().fit(X).n_components_ == 20


def test_no_more_than_asked_for():
    _, X = table()
    assert BayesianPCA(2).fit(X).n_components_ == 2


def test_pure_noise_keeps_one_component_that_says_nothing():
    X = np.random.default_rng(0).normal(size=(200, 8))
    model = BayesianPCA().fit(X)
    assert model.n_components_ == 1
    assert np.sum(model.loadings_**2) < 1e-3 * np.sum(X.var(axis=0))
    assert model.alpha_[0] > 100
    np.testing.assert_allclose(model.get_covariance(), np.eye(8), atol=0.1)


# The bound -----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("scale", [False, True])
def test_bound_never_falls(noise, missing, scale):
    _, X = table(missing=missing)
    model = BayesianPCA(noise=noise, scale=scale, tol=1e-8).fit(X)
    trace = model.trace_.objective
    assert len(trace) > 5
    assert model.converged_
    assert np.min(np.diff(trace)) > -1e-9 * max(np.max(np.abs(trace)), X.size)


def test_true_model_has_the_higher_bound():
    _, X = table()
    elbo = {q: BayesianPCA(q).fit(X).elbo_ for q in (1, 2, 3)}
    assert elbo[1] < elbo[2] < elbo[3]
    assert BayesianPCA().fit(X).elbo_ >= elbo[3] - 1e-3


# With much data ------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_with_much_data_it_is_maximum_likelihood(missing):
    differences = []
    for n in (200, 5000):
        _, X = table(n=n, missing=missing)
        ml, bayes = PPCA(3).fit(X), BayesianPCA().fit(X)
        assert bayes.n_components_ == 3
        C = ml.get_covariance()
        apart = np.linalg.norm(bayes.get_covariance() - C) / np.linalg.norm(C)
        differences.append((apart, abs(bayes.score(X) - ml.score(X))))
    assert differences[1][0] < 3e-3
    assert differences[1][1] < 1e-3
    assert differences[1][0] < 0.2 * differences[0][0]  # as 1 / n
    assert differences[1][1] < 0.2 * differences[0][1]


def test_on_small_tables_it_predicts_better_than_maximum_likelihood():
    """Held-out density, over several tables, at the true number of components."""
    gain = []
    for seed in range(8):
        truth, X = table(n=80, d=10, q=4, missing=0.1, noise=1.0, seed=seed)
        train, test = X[:30], truth[30:]
        gain.append(BayesianPCA().fit(train).score(test) - PPCA(4).fit(train).score(test))
    assert np.mean(gain) > 2 * np.std(gain) / np.sqrt(len(gain))


# Symmetries ----------------------------------------------------------------------------------


def test_shift_and_one_scale_for_all():
    _, X = table()
    a = BayesianPCA(tol=1e-8).fit(X)
    b = BayesianPCA(tol=1e-8).fit(1e3 * X - 1e4)
    cells = np.sum(~np.isnan(X))
    assert b.elbo_ == pytest.approx(a.elbo_ - cells * np.log(1e3), abs=1e-4)
    np.testing.assert_allclose(b.get_covariance(), 1e6 * a.get_covariance(), rtol=1e-4)
    np.testing.assert_allclose(b.mean_, 1e3 * a.mean_ - 1e4, rtol=1e-6)
    np.testing.assert_allclose(b.alpha_, 1e-6 * a.alpha_, rtol=1e-4)
    np.testing.assert_allclose(b.transform(1e3 * X - 1e4), a.transform(X), atol=1e-4)


def test_turning_complete_rows():
    truth, _ = table()
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(10, 10)))[0]
    a, b = BayesianPCA(tol=1e-8).fit(truth), BayesianPCA(tol=1e-8).fit(truth @ turn)
    assert b.elbo_ == pytest.approx(a.elbo_, abs=1e-2)  # the removed components left a trace
    np.testing.assert_allclose(b.get_covariance(), turn.T @ a.get_covariance() @ turn, atol=1e-3)


@pytest.mark.parametrize("how", [{"noise": "diagonal"}, {"scale": True}])
def test_a_scale_for_each_column(how):
    _, X = table()
    units = np.logspace(-3, 3, 10)
    a = BayesianPCA(tol=1e-8, **how).fit(X)
    b = BayesianPCA(tol=1e-8, **how).fit(X * units)
    jacobian = np.sum(~np.isnan(X), axis=0) @ np.log(units)
    assert b.elbo_ == pytest.approx(a.elbo_ - jacobian, abs=1e-4)
    C = a.get_covariance() * np.outer(units, units)
    np.testing.assert_allclose(b.get_covariance() / C, np.ones((10, 10)), atol=1e-2)


def test_order_of_rows_and_columns():
    _, X = table()
    rng = np.random.default_rng(2)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    a, b = BayesianPCA(tol=1e-8).fit(X), BayesianPCA(tol=1e-8).fit(X[rows][:, columns])
    assert b.elbo_ == pytest.approx(a.elbo_, abs=1e-5)
    C = a.get_covariance()[np.ix_(columns, columns)]
    np.testing.assert_allclose(b.get_covariance(), C, atol=1e-4)


def test_weights_are_frequencies():
    _, X = table()
    w = np.random.default_rng(3).integers(0, 4, size=len(X))
    a = BayesianPCA().fit(X, sample_weight=w.astype(float))
    b = BayesianPCA().fit(np.repeat(X, w, axis=0))
    assert a.elbo_ == pytest.approx(b.elbo_, abs=1e-6)
    np.testing.assert_allclose(a.get_covariance(), b.get_covariance(), rtol=1e-6)


def test_a_row_without_cells_is_as_if_absent():
    _, X = table()
    X[7] = np.nan
    a, b = BayesianPCA().fit(X), BayesianPCA().fit(np.delete(X, 7, axis=0))
    assert a.elbo_ == pytest.approx(b.elbo_, abs=1e-6)
    np.testing.assert_allclose(a.get_covariance(), b.get_covariance(), atol=1e-4)
    np.testing.assert_allclose(a.transform(X)[7], 0.0)
    filled, std = a.impute(X, return_std=True)
    np.testing.assert_allclose(filled[7], a.mean_)
    np.testing.assert_allclose(std[7], np.sqrt(np.diag(a.get_covariance())))


# Filling gaps --------------------------------------------------------------------------------


def test_imputation_leaves_observed_cells_alone():
    _, X = table()
    model = BayesianPCA().fit(X)
    observed = ~np.isnan(X)
    filled, std = model.impute(X, return_std=True)
    np.testing.assert_array_equal(filled[observed], X[observed])
    np.testing.assert_array_equal(std == 0, observed)
    np.testing.assert_allclose(filled, model.impute(X))
    for drawn in model.sample_imputations(X, 2, random_state=0):
        np.testing.assert_array_equal(drawn[observed], X[observed])
        assert np.all(np.isfinite(drawn))


def test_intervals_of_a_small_table_cover():
    """50 x 20, five components, a fifth missing: plug-in maximum likelihood covers 89 %."""
    hits, plug_in, cells = 0, 0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=(50, 5)) @ rng.normal(size=(5, 20)) + rng.normal(size=(50, 20))
        X = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
        missing = np.isnan(X)
        filled, std = BayesianPCA().fit(X).impute(X, return_std=True)
        hits += np.sum(np.abs(truth - filled)[missing] < 1.96 * std[missing])
        mean, variance = PPCA(5).fit(X).model_.conditional(X)
        plug_in += np.sum(np.abs(truth - mean)[missing] < 1.96 * np.sqrt(variance[missing]))
        cells += np.sum(missing)
    assert 0.93 < hits / cells < 0.97
    assert plug_in / cells < 0.92


def test_multiple_imputations_vary_as_the_intervals_say():
    _, X = table(n=40, d=8, q=2)
    model = BayesianPCA().fit(X)
    missing = np.isnan(X)
    _, std = model.impute(X, return_std=True)
    draws = np.array([one[missing] for one in model.sample_imputations(X, 400, random_state=0)])
    ratio = draws.std(axis=0) / std[missing]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)


# Outputs and edges ---------------------------------------------------------------------------


def test_same_numbers_again():
    _, X = table()
    a, b = BayesianPCA().fit(X), BayesianPCA().fit(X)
    np.testing.assert_array_equal(a.loadings_, b.loadings_)
    np.testing.assert_array_equal(a.sample(5, random_state=1), b.sample(5, random_state=1))


def test_components_are_ordered_and_orthonormal():
    _, X = table()
    model = BayesianPCA().fit(X)
    assert np.all(np.diff(model.alpha_) > 0)
    assert np.all(np.diff(model.explained_variance_) < 0)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-10)


def test_inverse_transform_returns_to_the_plane():
    truth, X = table(noise=0.01)
    model = BayesianPCA().fit(X)
    back = model.inverse_transform(model.transform(truth))
    assert np.sqrt(np.mean((back - truth) ** 2)) < 0.02


def test_score_is_the_predictive_density():
    _, X = table()
    model = BayesianPCA(scale=True).fit(X)
    assert model.score(X) * len(X) == pytest.approx(model.log_likelihood_, rel=1e-9)
    assert model.elbo_ < model.log_likelihood_


def test_diagonal_noise_finds_each_columns_noise():
    rng = np.random.default_rng(0)
    noise = np.linspace(0.2, 2.0, 12)
    X = rng.normal(size=(2000, 2)) @ rng.normal(size=(2, 12)) + noise * rng.normal(size=(2000, 12))
    model = BayesianPCA(noise="diagonal").fit(X)
    assert model.n_components_ == 2
    np.testing.assert_allclose(model.noise_variance_, noise**2, rtol=0.15, atol=0.02)


def test_a_table_without_noise_is_told():
    truth, _ = table(noise=0.0)
    with pytest.warns(NoiseFloorWarning):
        model = BayesianPCA().fit(truth)
    assert model.n_components_ == 3


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_ugly_tables(noise):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(8, 60))
    constant = rng.normal(size=(30, 4))
    constant[:, 2] = 5.0
    rare = rng.normal(size=(30, 4))
    rare[1:, 2] = np.nan
    units = rng.normal(size=(40, 6)) * np.logspace(-4, 4, 6)
    for X in (wide, constant, rare, units, wide[:2], constant[:, :1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (ConvergenceWarning, NoiseFloorWarning))
            model = BayesianPCA(noise=noise, max_iter=100).fit(X)
        filled, std = model.impute(X, return_std=True)
        assert np.all(np.isfinite(filled))
        assert np.all(np.isfinite(std))
        assert np.all(np.isfinite(model.score_samples(X)))
        assert np.all(np.isfinite(model.sample(3, random_state=0)))


def test_equal_rows():
    with pytest.warns(UserWarning, match="all rows are equal"):
        model = BayesianPCA().fit(np.ones((10, 3)))
    np.testing.assert_allclose(model.impute(np.full((1, 3), np.nan)), 1.0)
    np.testing.assert_allclose(model.sample(2, random_state=0), 1.0)


def test_too_many_components_are_refused():
    with pytest.raises(ValueError, match="n_components=11 must be at most 10"):
        BayesianPCA(11).fit(table()[1])


def test_one_step_is_told():
    _, X = table()
    with pytest.warns(ConvergenceWarning, match="1 steps"):
        model = BayesianPCA(max_iter=1).fit(X)
    assert not model.converged_
    assert model.n_iter_ == 1


@pytest.mark.parametrize("columns", ["numeric", "auto"])
def test_a_fit_out_of_steps_keeps_no_component_without_loadings(columns):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 1)) @ rng.normal(size=(1, 10)) + 0.5 * rng.normal(size=(150, 10))
    X[:, :3] = X[:, :3] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BayesianPCA(8, noise="diagonal", max_iter=30, columns=columns).fit(X)
    bayesian = model.bayesian_
    of_mean = np.sum(bayesian.W**2, axis=0)
    uncertain = np.einsum("jqq->q", bayesian.cov[:, :-1, :-1])
    assert np.all(of_mean >= 0.1 * (of_mean + uncertain))
    assert model.n_components_ < 8
