"""Noise that vanishes, loadings that vanish, and numbers at the ends of their range."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigengap as eg
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.predictive import Predictive


def table(rng, n=60):
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(n, 5))
    return X, np.where(rng.random(X.shape) < 0.2, np.nan, X)


# cell_sd as the only noise -------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
def test_standard_deviations_where_cell_sd_is_the_only_noise(missing):
    rng = np.random.default_rng(0)
    X, incomplete = table(rng)
    s = rng.uniform(0.2, 0.6, X.shape)
    model = eg.PPCA(2, noise_variance=0).fit(incomplete if missing else X, cell_sd=s)
    imputed, std = model.impute(incomplete, return_std=True, cell_sd=s)
    hidden = np.isnan(incomplete)
    alone = np.sqrt(model.model_.conditional(incomplete, s)[1])
    assert np.all(std[hidden] >= alone[hidden])  # the parameters are uncertain too
    assert np.all(std[hidden] < 2 * alone[hidden] + 0.5)
    drawn = np.stack(list(model.sample_imputations(incomplete, 3, random_state=0, cell_sd=s)))
    assert np.all(np.isfinite(drawn))
    assert_allclose(imputed, model.impute(incomplete, cell_sd=s))


def test_the_uncertainty_is_that_of_as_little_noise_of_its_own():
    """psi = 0 beside known noise is the limit of psi -> 0."""
    rng = np.random.default_rng(1)
    X, incomplete = table(rng)
    s = rng.uniform(0.2, 0.6, X.shape)
    model = eg.PPCA(2, noise_variance=0).fit(incomplete, cell_sd=s)
    small = LinearGaussian(W=model.model_.W, mu=model.mean_, psi=np.full(5, 1e-12))
    near = Predictive.of(small, model.evidence_)
    for known in (s, np.full(s.shape, 1e-3)):
        expected = near.conditional(incomplete, known)[1]
        assert_allclose(model.predictive_.conditional(incomplete, known)[1], expected, atol=1e-6)


def test_rows_without_noise_know_the_errors_of_the_parameters():
    """Cells of no noise, in a row of its own: as those of vanishing noise, on either route."""
    rng = np.random.default_rng(2)
    _, incomplete = table(rng)
    s = rng.uniform(0.2, 0.6, incomplete.shape)
    model = eg.PPCA(2, noise_variance=0).fit(incomplete, cell_sd=s)
    found = [
        model.predictive_.conditional(incomplete, np.full(s.shape, sd))[1]
        for sd in (1e-3, 1e-6, 1e-12, 0.0)  # the first by products
    ]
    assert_allclose(found[0], found[-1], rtol=1e-2, atol=1e-4)  # sd^2 over the least variance of z
    assert_allclose(found[1], found[-1], atol=1e-9)
    assert_allclose(found[2], found[-1], atol=1e-9)
    assert np.sqrt(found[-1])[np.isnan(incomplete)].min() > 0.01


@pytest.mark.parametrize("sd", [1e-150, 1e-154, 1e-170, 1e-200, 5e-324])
def test_cell_sd_whose_square_underflows(sd):
    X, _ = table(np.random.default_rng(3))
    s = np.full(X.shape, 0.1)
    s[4, 2] = sd
    with pytest.raises(ValueError, match=r"row 4, column 2 .*square underflows.*noise_variance"):
        eg.PPCA(2, noise_variance=0).fit(X, cell_sd=s)
    learned = eg.PPCA(2).fit(X, cell_sd=s)  # beside noise of its own it counts as none
    exact = np.where(s < 1e-100, 0.0, s)
    assert_allclose(
        learned.log_likelihood_, eg.PPCA(2).fit(X, cell_sd=exact).log_likelihood_, rtol=1e-9
    )


# Loadings of zero ----------------------------------------------------------------------------


@pytest.mark.parametrize("fit_mean", [False, True])
def test_without_loadings_the_mean_alone_is_uncertain(fit_mean):
    rng = np.random.default_rng(4)
    X, incomplete = table(rng, n=200)
    model = eg.PPCA(1, noise_variance=1e3, fit_mean=fit_mean).fit(X)
    assert not model.loadings_.any()
    std = model.impute(incomplete, return_std=True)[1][np.isnan(incomplete)]
    expected = np.sqrt(1e3 * (1 + fit_mean / len(X)))
    assert_allclose(std, expected, rtol=1 / len(X) ** 1.5)
    assert np.all(np.isfinite(next(model.sample_imputations(incomplete, 1, random_state=0))))


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: eg.LowRankImputer(estimator=m)])
@pytest.mark.parametrize("n", [2, 5, 50])
def test_factor_analysis_of_one_column(n, wrap):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 1))
    model = wrap(eg.FactorAnalysis(1)).fit(x)
    new = np.array([[np.nan], [0.5]])
    imputed, std = model.impute(new, return_std=True)
    assert_allclose(imputed, [[x.mean()], [0.5]])
    assert x.std() <= std[0, 0] < 10 * x.std() + 10
    assert std[1, 0] == 0
    assert np.isfinite(next(iter(model.sample_imputations(new, 1, random_state=0)))).all()


def test_almost_no_loadings_are_as_none():
    evidence = ObservationPattern(np.ones((1, 4), dtype=bool), np.full(4, 30.0), "given")
    x = np.array([[0.3, np.nan, np.nan, 1.0]])
    found = [
        Predictive.of(LinearGaussian(W=W, mu=np.zeros(4), psi=np.ones(4)), evidence).conditional(x)
        for W in (np.zeros((4, 2)), np.full((4, 2), 1e-12), np.full((4, 2), 1e-170))
    ]
    for mean, variance in found[1:]:
        assert_allclose(mean, found[0][0], atol=1e-12)
        assert_allclose(variance, found[0][1], rtol=1e-9)


# Numbers at the ends of their range ----------------------------------------------------------


@pytest.mark.parametrize("nu", [1e20, 1e103, 1e154, 1e300, 1e308])
@pytest.mark.parametrize("missing", [False, True])
def test_infinitely_many_degrees_of_freedom_are_the_gaussian(missing, nu):
    X, incomplete = table(np.random.default_rng(6))
    rows = incomplete if missing else X
    student = eg.PPCA(2, distribution="student", degrees_of_freedom=nu).fit(rows)
    gaussian = eg.PPCA(2, solver="em").fit(rows)
    assert_allclose(student.log_likelihood_, gaussian.log_likelihood_, rtol=1e-7)
    assert_allclose(student.impute(incomplete), gaussian.impute(incomplete), atol=1e-3)
    assert_allclose(student.row_weights(rows), 1.0, rtol=1e-12)
    assert_allclose(
        student.impute(incomplete, return_std=True)[1],
        gaussian.impute(incomplete, return_std=True)[1],
        atol=1e-3,
    )
    assert np.all(np.isfinite(next(student.sample_imputations(incomplete, 1, random_state=0))))
    assert np.all(np.isfinite(student.sample(3, random_state=0)))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "make",
    [lambda: eg.PCA(2), lambda: eg.PPCA(2), lambda: eg.FactorAnalysis(1), lambda: eg.PPCA()],
)
def test_huge_weights(make, missing):
    """They change the number of rows, and nothing else that is fitted."""
    X, incomplete = table(np.random.default_rng(8))
    rows = incomplete if missing else X
    plain, heavy = make().fit(rows), make().fit(rows, sample_weight=np.full(60, 1e200))
    assert_allclose(heavy.get_covariance(), plain.get_covariance(), rtol=1e-3, atol=1e-3)
    assert_allclose(heavy.log_likelihood_ / 1e200, plain.log_likelihood_, rtol=1e-4)
    assert np.all(np.isfinite(heavy.impute(incomplete, return_std=True)[1]))
    with pytest.raises(ValueError, match=r"sample_weight sums to .*overflow.*scale them"):
        make().fit(rows, sample_weight=np.full(60, 1e306))


# Counts of draws -----------------------------------------------------------------------------

MODELS = {
    "PCA": lambda: eg.PCA(2),
    "PPCA": lambda: eg.PPCA(2),
    "FactorAnalysis": lambda: eg.FactorAnalysis(1),
    "BayesianPCA": lambda: eg.BayesianPCA(2),
    "MixturePPCA": lambda: eg.MixturePPCA(2, 1, random_state=0),
    "LowRankImputer": lambda: eg.LowRankImputer(estimator=eg.PPCA(2)),
}


@pytest.mark.parametrize("count", [-1, 0, 2.5, None, "3"])
@pytest.mark.parametrize("name", MODELS)
def test_draws_are_counted_by_positive_integers(name, count):
    """In all classes, at once and not at the first table."""
    _, incomplete = table(np.random.default_rng(7))
    model = MODELS[name]().fit(incomplete)
    with pytest.raises(ValueError, match=r"m, the number of tables to draw.*positive integer"):
        model.sample_imputations(incomplete, count)
    if hasattr(model, "sample"):
        with pytest.raises(ValueError, match=r"n_samples, the number of rows.*positive integer"):
            model.sample(count)
    assert len(list(model.sample_imputations(incomplete, np.int64(2), random_state=0))) == 2
