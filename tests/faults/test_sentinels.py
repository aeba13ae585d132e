"""T19: a code for missing values that nobody declared is told, and nothing else is."""

from __future__ import annotations

import warnings
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn import datasets

from eigengap import (
    PCA,
    PPCA,
    BayesianPCA,
    FactorAnalysis,
    LowRankImputer,
    MixturePPCA,
    NoveltyDetector,
    PPCAClassifier,
    PPCARegressor,
    choose_rank,
    compare,
)
from eigengap.exceptions import SentinelWarning
from eigengap.sources.checks import is_code, warn_of_codes
from eigengap.sources.conversion import as_source

ALL = [PCA, PPCA, FactorAnalysis]


def measurements(n=1000, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def told(X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_codes(as_source(X))
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_t19_999_in_a_twentieth_of_a_column(kind):
    """-999 in 5 % of a column: a warning that suggests missing_values=-999; nothing changed."""
    X = pd.DataFrame(measurements(), columns=list("abcde"))
    hit = np.random.default_rng(1).random(1000) < 0.05
    X.loc[hit, "c"] = -999.0
    kept = X.copy()
    count = int(hit.sum())
    words = rf'column "c" holds -999 in {count} of 1000 cells.*missing_values=-999'
    with pytest.warns(SentinelWarning, match=words) as caught:
        fit = kind(2).fit(X)
    assert caught[0].filename == __file__  # the caller's line, not ours
    pd.testing.assert_frame_equal(X, kept)
    assert fit.mean_[2] < -30.0  # taken at its word
    with warnings.catch_warnings():
        warnings.simplefilter("error", SentinelWarning)
        kind(2, missing_values=-999).fit(X)
        kind(2).fit(X.replace(-999.0, np.nan))
        fit.transform(X)  # at fit only


@pytest.mark.parametrize(
    "code",
    [-9.0, -99.0, 99.0, -999.0, 9999.0, -99.9, 9999.9, 999.99, 32767.0, -32768.0, 1e20, 1e10],
)
def test_codes_of_many_trades(code):
    X = measurements()
    X[::20, 3] = code
    (message,) = told(X)
    assert f"missing_values={code:.15g}" in message
    assert "column 3 holds" in message
    assert len(told(X.round(1))) == 1  # measurements on a grid
    (message,) = told(X.astype(np.float32))
    assert f"missing_values={code:.7g}" in message


def test_two_codes_in_two_columns_are_told_together():
    X = measurements()
    X[:40, 0], X[:30, 4] = -999.0, 9999.0
    (message,) = told(X)
    assert "column 0 holds -999 in 40" in message
    assert "column 4 holds 9999 in 30" in message
    assert "missing_values=[-999, 9999]" in message


def test_codes_in_counts_and_in_small_tables():
    counts = np.random.default_rng(2).poisson(3.0, (500, 2)).astype(float)
    counts[:25, 1] = 99.0
    assert len(told(counts)) == 1
    assert len(told(counts.astype(int))) == 1
    small = measurements(n=40)
    small[:3, 1] = -999.0
    assert len(told(small)) == 1
    small[0, 1] = 0.0  # twice is too seldom to tell
    assert told(small) == []


def test_a_code_that_is_rare_in_a_long_table_is_found():
    X = measurements(n=60_000, d=3)
    X[np.random.default_rng(3).random(60_000) < 0.02, 1] = -999.0
    assert len(told(X)) == 1


def several_kinds(code=-99.0):
    """Two columns of numbers, one of grades and one of text; a code in the second and third."""
    Z = measurements(400, 3)
    X = pd.DataFrame({"length": Z[:, 0] + Z[:, 1], "weeks": np.round(30 + 4 * Z[:, 0])})
    X["grade"] = np.digitize(Z[:, 1], [-1, 0, 1]) + 1.0
    X["sex"] = np.where(Z[:, 2] > 0, "m", "f")
    X.loc[::20, "weeks"] = X.loc[5::20, "grade"] = code
    return X


def told_of_fit(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(w.message) for w in caught if w.category is SentinelWarning]


FITS = {
    "PPCA": lambda X, y: PPCA(1, columns="auto").fit(X),
    "FactorAnalysis": lambda X, y: FactorAnalysis(1, columns="auto").fit(X),
    "BayesianPCA": lambda X, y: BayesianPCA(1, columns="auto").fit(X),
    "MixturePPCA": lambda X, y: MixturePPCA(2, 0, columns="auto", n_init=1).fit(X),
    "LowRankImputer": lambda X, y: LowRankImputer(n_components=1).fit(X),
    "NoveltyDetector": lambda X, y: NoveltyDetector(columns="auto").fit(X),
    "PPCAClassifier": lambda X, y: PPCAClassifier(1, columns="auto").fit(X, y),
    "PPCARegressor": lambda X, y: PPCARegressor(1, columns="auto").fit(X, y),
    "choose_rank": lambda X, y: choose_rank(X, columns="auto"),
    "compare": lambda X, y: compare([PPCA(1, columns="auto")], X, cv=2),
}


@pytest.mark.parametrize("name", FITS)
def test_codes_among_columns_of_several_kinds_are_told_once(name):
    X, y = several_kinds(), np.arange(400) % 2
    (message,) = told_of_fit(lambda: FITS[name](X, y))
    assert 'column "weeks" holds -99 in 20 of 400 cells' in message
    assert 'column "grade" holds -99 in 20 of 400 cells' in message
    assert "missing_values=-99" in message


def test_codes_in_a_file_of_several_kinds_are_told(tmp_path):
    several_kinds().to_csv(tmp_path / "table.csv", index=False)
    (message,) = told_of_fit(lambda: PPCA(1, columns="auto").fit(tmp_path / "table.csv"))
    assert 'column "weeks" holds -99 in 20 of 400 cells' in message


def test_levels_that_are_named_as_such_are_no_codes():
    X = several_kinds(99.0)
    named = {"weeks": "ignored", "grade": "ordinal"}
    for columns in (named, {**named, "grade": "nominal"}):
        fit = lambda: PPCA(1, columns=columns).fit(X)  # noqa: B023, E731
        assert told_of_fit(fit) == []
    clean = several_kinds(np.nan)
    assert told_of_fit(lambda: PPCA(1, columns="auto").fit(clean)) == []


def test_bundled_tables_hold_no_code():
    loaders = ("iris", "digits", "wine", "breast_cancer", "diabetes", "linnerud")
    for name in loaders:
        assert told(getattr(datasets, f"load_{name}")().data) == [], name
    assert told(datasets.load_diabetes(scaled=False).data) == []
    shipped = files("eigengap") / "data" / "breast_cancer_wisconsin.csv"
    assert told(pd.read_csv(shipped).select_dtypes("number")) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda r: r.integers(0, 2, (1000, 4)),
        lambda r: r.integers(1, 10, (1000, 4)),  # 9 is the largest grade, not a code
        lambda r: np.round(r.uniform(0, 99, (1000, 4))),  # percentages up to 99
        lambda r: r.poisson(0.1, (1000, 4)),
        lambda r: np.where(r.random((1000, 4)) < 0.5, 0.0, r.uniform(1000, 1010, (1000, 4))),
        lambda r: np.where(r.random((1000, 4)) < 0.05, -1.0, r.integers(0, 5, (1000, 4))),
        lambda r: np.full((1000, 4), -999.0),
        lambda r: np.where(r.random((1000, 4)) < 0.5, -999.0, np.nan),
        lambda r: np.where(r.random((1000, 4)) < 0.1, 50.0, 0.0),  # dummy-coded
        lambda r: np.minimum(np.round(r.lognormal(3, 1, (1000, 4))), 99.0),  # top-coded
        lambda r: r.normal(0, 1000, (1000, 4)).round(),
        lambda r: np.round(r.lognormal(0, 3, (3000, 4))),
        lambda r: r.standard_cauchy((1000, 4)),
    ],
)
def test_columns_that_only_look_odd_are_left_in_peace(make):
    for seed in range(5):
        assert told(make(np.random.default_rng(seed))) == []


def test_what_is_a_code():
    assert all(map(is_code, (-9.0, 99.0, -99.0, 999.0, 99.99, -9999.9, 32767.0)))
    assert not any(map(is_code, (9.0, 0.0, 0.9, 9.5, 990.0, 100.0, -1.0, 42.0, 98.9)))


def test_the_sample_costs_no_pass():
    source = as_source(measurements())
    warn_of_codes(source)
    assert source.passes == 0


def test_names_that_occur_twice_are_refused_with_the_way_out():
    X = pd.DataFrame(measurements(n=20, d=3), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match=r'2 columns named "a" \(positions 0, 2\).*X.to_numpy\(\)'):
        PPCA(1).fit(X)
    assert_array_equal(PPCA(1).fit(X.to_numpy()).n_components_, 1)
