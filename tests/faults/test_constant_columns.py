"""A constant column where columns share a noise variance, and in factor analysis: said by name."""

import warnings

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.exceptions import ConstantColumnWarning, HeywoodWarning


def table(*constants):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) @ rng.normal(size=(1, 5)) + rng.normal(size=(60, 5))
    return pd.DataFrame(X, columns=list("abcde")).assign(**dict.fromkeys(constants, 3.0))


SHARED = {
    "PPCA": lambda: eg.PPCA(1),
    "PPCA scaled": lambda: eg.PPCA(1, scale=True),
    "BayesianPCA": lambda: eg.BayesianPCA(2),
    "MixturePPCA": lambda: eg.MixturePPCA(2, 1, random_state=0),
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_a_constant_column_under_shared_noise_is_named(name, missing):
    X = table("batch")
    if missing:
        X.iloc[::9, [0, 5]] = np.nan
    with pytest.warns(ConstantColumnWarning, match='column "batch" is constant: it makes'):
        SHARED[name]().fit(X)


def test_so_are_several_and_in_a_stream():
    with pytest.warns(ConstantColumnWarning, match='"batch", "year" are constant: they'):
        eg.PPCA(1).partial_fit(table("batch", "year")).get_covariance()


QUIET = {
    "PCA": lambda: eg.PCA(1),
    "given noise": lambda: eg.PPCA(1, noise_variance=1.0),
    "noise by column": lambda: eg.BayesianPCA(1, noise="diagonal"),
}


@pytest.mark.parametrize("name", QUIET)
def test_noise_that_is_not_shared_or_not_promised_needs_no_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstantColumnWarning)
        QUIET[name]().fit(table("batch"))


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.filterwarnings("ignore")
def test_one_observed_value_is_no_constant(name):
    X = table("batch")
    X.loc[1:, "batch"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstantColumnWarning)
        SHARED[name]().fit(X)


def test_a_constant_is_no_heywood_case():
    with pytest.warns(HeywoodWarning) as heard:
        eg.FactorAnalysis(1).fit(table("batch"))
    said = str(heard[0].message)
    assert said == 'column "batch" is constant, without noise or loadings'


@pytest.mark.parametrize(("q", "advice"), [(1, "Leaving such"), (2, "Fewer factors, or leaving")])
def test_a_heywood_case_gets_advice_that_can_be_followed(q, advice):
    X = table("batch")
    X["b"] = X["a"]  # one factor explains both entirely
    with pytest.warns(HeywoodWarning) as heard:
        eg.FactorAnalysis(q).fit(X)
    said = str(heard[0].message)
    assert said.startswith("Heywood case")
    assert advice in said
    assert "may give a proper solution" in said
    assert said.endswith('; column "batch" is constant, without noise or loadings')


def incomplete(constant=7.0):
    X = np.random.default_rng(0).normal(size=(40, 4)) * [5.0, 3.0, 1.0, 1.0]
    X[:, 3] = constant
    X[:5, 3] = np.nan
    return X


SCALED = {
    "PCA": lambda: eg.PCA(1, scale=True),
    "PPCA": lambda: eg.PPCA(1, scale=True),
    "Student": lambda: eg.PPCA(1, scale=True, distribution="student", degrees_of_freedom=5),
    "FactorAnalysis": lambda: eg.FactorAnalysis(1, scale=True),
    "BayesianPCA": lambda: eg.BayesianPCA(1, scale=True),
    "MixturePPCA": lambda: eg.MixturePPCA(1, 1, scale=True),
}
FACTORS = pytest.mark.parametrize(
    "factor", [1e-6, 1e6, [1.0, 1.0, 1.0, 1e6], [1e6, 1.0, 1e-6, -1.0]], ids=str
)


@FACTORS
@pytest.mark.parametrize("name", SCALED)
@pytest.mark.filterwarnings("ignore")
def test_imputing_a_constant_does_not_depend_on_units(name, factor):
    X = incomplete()
    rows = X.copy()
    rows[6:12, 1] = np.nan
    expected, sd = SCALED[name]().fit(X).impute(rows, return_std=True)
    found, found_sd = SCALED[name]().fit(X * factor).impute(rows * factor, return_std=True)
    np.testing.assert_allclose(found / factor, expected, rtol=1e-6)
    np.testing.assert_allclose(found_sd / np.abs(factor), sd, rtol=1e-5)
    np.testing.assert_allclose(expected[:5, 3], 7.0, rtol=1e-6)
    assert np.all((sd[:5, 3] > 0.0) & (sd[:5, 3] < 0.002 * 7.0))


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.filterwarnings("ignore")
def test_imputing_zeros_follows_the_unit_of_the_table(name):
    X = incomplete(0.0)
    sd = SCALED[name]().fit(X).impute(X, return_std=True)[1][:5, 3]
    large = SCALED[name]().fit(1e6 * X).impute(1e6 * X, return_std=True)[1][:5, 3]
    np.testing.assert_allclose(large, 1e6 * sd, rtol=1e-5)
    assert np.all(sd < 0.01)


@pytest.mark.parametrize("n", [40, 2400], ids=["rows kept", "rows gone"])
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
@pytest.mark.filterwarnings("ignore")
def test_a_constant_in_a_stream_has_the_unit_of_fit(n, factor):
    X = np.random.default_rng(0).normal(size=(n, 4)) * [5.0, 3.0, 1.0, 1.0]
    X[:, 3], X[:, 0] = 7.0, np.where(np.arange(n) % 10 == 3, X[:, 0], np.nan)
    X *= factor
    streamed = eg.PPCA(1, scale=True)
    for part in np.array_split(X, 4):
        streamed.partial_fit(part)
    whole = eg.PPCA(1, scale=True).fit(X)
    np.testing.assert_allclose(streamed.scale_, whole.scale_, rtol=1e-9)
    np.testing.assert_allclose(streamed.scale_[3], 0.007 * factor)
    gap = np.array([[np.nan, factor, factor, np.nan]])
    sd = [model.impute(gap, return_std=True)[1] for model in (streamed, whole)]
    np.testing.assert_allclose(*sd, rtol=0.1)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.filterwarnings("ignore")
def test_predictions_do_not_depend_on_the_unit_of_a_constant(factor):
    X = incomplete()[5:]
    units = np.array([1.0, 1.0, 1.0, factor])
    y = np.full(len(X), 3.0)
    regressor = eg.PPCARegressor(1).fit(X[:, :3], y).predict(X[:, :3], return_std=True)
    other = eg.PPCARegressor(1).fit(X[:, :3], factor * y).predict(X[:, :3], return_std=True)
    np.testing.assert_allclose(np.array(other) / factor, regressor, rtol=1e-6)
    assert np.max(regressor[1]) < 0.01
    new = X + np.array([0.0, 0.0, 0.0, 0.1])
    novelty = [
        eg.NoveltyDetector(eg.PPCA(1, scale=True)).fit(X * u).score_samples(new * u)
        for u in (np.ones(4), units)
    ]
    np.testing.assert_allclose(*novelty, rtol=1e-6)
    label = X[:, 0] > 0
    classes = [
        eg.PPCAClassifier(1, scale=True).fit(X * u, label).predict_proba(new * u)
        for u in (np.ones(4), units)
    ]
    np.testing.assert_allclose(*classes, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_without_a_mean_a_constant_is_variation_about_zero():
    X = incomplete()[5:]
    model = eg.PPCA(1, scale=True, fit_mean=False).fit(X)
    assert model.scale_[3] == 7.0


@pytest.mark.parametrize("constant", [5e-324, 1e-200, 1e300])
@pytest.mark.filterwarnings("ignore")
def test_the_unit_of_a_constant_stays_in_range(constant):
    X = incomplete(constant)
    imputed, sd = eg.PPCA(1, scale=True).fit(X).impute(X, return_std=True)
    np.testing.assert_allclose(imputed[:5, 3], constant)
    assert np.all(np.isfinite(sd))
