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


@pytest.mark.parametrize(("q", "advice"), [(1, "Leaving out"), (2, "Fewer factors, or leaving")])
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
