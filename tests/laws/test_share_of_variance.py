"""n_components and k as a share: it is reached, or a warning names the share that is."""

import re
import warnings

import numpy as np
import pytest

from eigengap import PCA, PPCA, ClassicalMDS, FactorAnalysis, low_rank

SHAPES = [(20, 30), (60, 12), (150, 8), (12, 3), (3, 9)]


def table(n, d, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, min(3, d))) @ rng.standard_normal((min(3, d), d))
    X = X + 0.5 * rng.standard_normal((n, d))
    hidden = rng.random((n, d)) < 0.2
    hidden[:, hidden.all(axis=0)] = False
    hidden[0] = False
    return np.where(hidden, np.nan, X)


def told_share(record):
    """The share that a warning names, None where there is no such warning."""
    said = [str(w.message) for w in record if "out of reach" in str(w.message)]
    return float(re.search(r"(?:explain|keeps) ([0-9.]+)", said[0]).group(1)) if said else None


def check(reached, asked, record):
    told = told_share(record)
    if told is None:
        assert reached >= asked
    else:
        assert reached < asked
        assert told == pytest.approx(reached, rel=1e-2)


@pytest.mark.parametrize("share", [0.9, 0.999])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", [PCA, PPCA, FactorAnalysis], ids=["PCA", "PPCA", "FactorAnalysis"])
def test_components_reach_the_share(make, shape, share):
    X = table(*shape)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        fitted = make(share, max_iter=60).fit(X)
    reached = float(np.sum(fitted.spectrum_.explained_ratio(fitted.n_components_)))
    check(reached, share, record)
    if make is not FactorAnalysis:  # as many components as columns explain everything
        assert reached >= share


@pytest.mark.parametrize("share", [0.9, 0.999])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_completed_matrix_reaches_the_share(shape, share):
    X = table(*shape)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        found = low_rank(X, share, max_iter=60)
    check(1.0 - found.relative_error**2, share, record)
    observed = ~np.isnan(X)
    left = np.sum((X - found.to_array())[observed] ** 2) / np.sum(X[observed] ** 2)
    assert found.relative_error**2 == pytest.approx(left, rel=1e-6, abs=1e-12)


def test_scaling_reaches_the_share():
    X = table(20, 30)
    fitted = ClassicalMDS(0.99, max_iter=60).fit(X)
    few = ClassicalMDS(0.9, max_iter=60).fit(X)
    assert few.n_components_ < fitted.n_components_
    assert fitted.goodness_of_fit_[0] >= 0.99
