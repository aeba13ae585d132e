"""What a fit inside another warns of or refuses names columns as a direct fit does."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.cli.running import run

import eigengap as eg

NAMES = ["ozone", "wind", "temp", "rain", "sun", "y"]
NUMBERED = re.compile(r"columns? \d")


def heywood() -> pd.DataFrame:
    """Columns of one factor; "sun" has more in common with two of them than it can explain."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 1)) + rng.standard_normal((120, 6))
    X[:, 4] = X[:, 3] + X[:, 5] + 0.3 * rng.standard_normal(120)
    X[::17, 0] = np.nan
    return pd.DataFrame(X, columns=NAMES)


def sizes() -> pd.DataFrame:
    """ "wind" is far smaller than the noise of the other columns."""
    return heywood() * [1.0, 1e-3, 1.0, 1.0, 1.0, 1.0]


def bare(df, folder):
    df.to_csv(folder / "table.csv", index=False)
    return eg.open_source(folder / "table.csv")


def halves(df):
    return np.arange(len(df)) % 2


# How each fits a model to a frame: (frame, model, folder).
WRAPPERS = {
    "direct": lambda df, model, _: model.fit(df),
    "imputer": lambda df, model, _: eg.LowRankImputer(model).fit(df),
    "intervals": lambda df, model, _: eg.confidence_intervals(model, df, n_boot=2),
    "novelty": lambda df, model, _: eg.NoveltyDetector(model).fit(df),
    "classifier": lambda df, model, _: eg.PPCAClassifier(estimator=model, scale=False).fit(
        df, halves(df)
    ),
    "regressor": lambda df, model, _: eg.PPCARegressor(estimator=model).fit(df, df["temp"]),
    "compare": lambda df, model, _: eg.compare([model], df, cv=2),
    "compare of a file": lambda df, model, folder: eg.compare([model], bare(df, folder), cv=2),
    "compare of an imputer": lambda df, model, folder: eg.compare(
        [eg.LowRankImputer(model)], bare(df, folder), cv=2
    ),
    "likelihood ratio": lambda df, model, _: eg.likelihood_ratio_test(
        eg.PPCA(1), eg.FactorAnalysis(1), df, method="chi2"
    ),
}
# A regressor does not repeat Heywood cases: a column that is itself a factor predicts as well.
CASES = [
    pytest.param(wrapper, table, model, category, name, id=f"{label}, {category.__name__}")
    for label, wrapper in WRAPPERS.items()
    for table, model, category, name in (
        (heywood, eg.FactorAnalysis(1), eg.exceptions.HeywoodWarning, '"sun"'),
        (sizes, eg.PPCA(1), eg.exceptions.UnitsWarning, '"wind"'),
    )
    if (label, category) != ("regressor", eg.exceptions.HeywoodWarning)
]


@pytest.mark.parametrize(("wrapper", "table", "model", "category", "name"), CASES)
def test_warnings_name_the_columns(wrapper, table, model, category, name, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrapper(table(), model, tmp_path)
    said = [str(one.message) for one in caught if issubclass(one.category, category)]
    assert said
    assert all(name in message for message in said)
    everything = [str(one.message) for one in caught]
    assert not [message for message in everything if NUMBERED.search(message)]
    assert not [message for message in everything if "valid feature names" in message]


def test_errors_name_the_columns():
    df = heywood()
    with pytest.raises(ValueError, match='noise variance of column "sun" lies at its bound'):
        eg.confidence_intervals(eg.FactorAnalysis(1), df, method="asymptotic")
    with pytest.raises(ValueError, match="noise variance of column 4 lies at its bound"):
        eg.confidence_intervals(eg.FactorAnalysis(1), df.to_numpy(), method="asymptotic")


def test_a_feature_that_is_called_as_the_target():
    with pytest.warns(eg.exceptions.UnitsWarning, match=r'\(column "y_" is y\): .* column "wind"'):
        eg.PPCARegressor(estimator=eg.PPCA(1)).fit(sizes(), np.arange(120.0) % 7)


def test_the_command_line_names_the_columns(tmp_path):
    heywood().to_csv(tmp_path / "table.csv", index=False)
    ran = run("compare", "table.csv", "-m", "fa", "-m", "ppca", "-k", "1", cwd=tmp_path)
    assert 'explain column "sun" entirely' in ran.err
    assert not NUMBERED.search(ran.err)


EMBEDDINGS = [
    eg.Isomap(2),
    eg.LaplacianEigenmaps(2),
    eg.KernelPCA(2, kernel="rbf"),
    eg.GPLVM(2, max_iter=2),
]


@pytest.mark.parametrize("model", EMBEDDINGS, ids=lambda model: type(model).__name__)
def test_codes_for_missing_values_are_reported_once(model):
    """The model that imputes for an embedding has the same rows, and nothing to add."""
    df = heywood()
    df.iloc[::9, 3] = -999.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(df)
    said = [str(one.message) for one in caught]
    assert len([message for message in said if 'column "rain" holds -999' in message]) == 1
    assert not [message for message in said if NUMBERED.search(message)]
    assert not [message for message in said if "valid feature names" in message]


class Bare:
    """An estimator of another package: it knows arrays, and no sources."""

    def __init__(self) -> None:
        self.kinds: list[type] = []

    def fit(self, X, y=None, sample_weight=None):
        self.kinds.append(type(X))
        self.mean_ = np.nanmean(X, axis=0)
        return self

    def impute(self, X, return_std=False):
        filled = np.where(np.isnan(X), self.mean_, X)
        return (filled, np.ones_like(filled)) if return_std else filled

    def get_params(self, deep=True):
        return {}

    def set_params(self, **parameters):
        return self


def test_estimators_of_other_packages_get_arrays():
    fitted = eg.LowRankImputer(Bare()).fit(heywood())
    assert fitted.estimator_.kinds == [np.ndarray]


def test_the_summary_of_an_imputer_of_skewed_numbers_names_its_columns():
    """Behind maps too, whose model is fitted to bare rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.exp(rng.normal(size=(60, 4))), columns=["girth", "height", "w", "volume"])
    X["volume"] = X["girth"] ** 2 * X["height"]
    imputer = eg.LowRankImputer(n_components=2).fit(X.mask(rng.random(X.shape) < 0.1))
    assert set(imputer.kinds_.values()) == {"continuous"}
    assert 'Heywood case: the factors explain columns "girth"' in str(imputer.summary())
    assert not hasattr(imputer.estimator_, "feature_names_in_")


def test_values_that_a_chosen_map_cannot_hold_are_named_by_column():
    """One of weight 0 is absent in the fit, and so in the choice of its map."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 1))
    df = pd.DataFrame(np.exp(2 * (z + 0.3 * rng.normal(size=(400, 3)))), columns=list("abc"))
    df.loc[::7, "b"] = np.nan
    df.loc[2, "c"] = -3.0
    weight = np.where(np.arange(400) == 2, 0.0, 1.0)
    imputer = eg.LowRankImputer().fit(df, sample_weight=weight)
    assert set(imputer.kinds_.values()) == {"continuous"}
    for ask in (imputer.impute, imputer.intervals, imputer.level_probabilities):
        with pytest.raises(eg.exceptions.DataError, match='at row 2, column "c", does') as caught:
            ask(df)
        assert (caught.value.column, caught.value.name) == (2, "c")
