"""Tables that break numerical code: right answers or clear errors, never NaN or a falling guard."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import eigengap as eg


def signal(rng, n, d, q, noise=0.5):
    return rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) * 2 + noise * rng.normal(size=(n, d))


def with_missing(rng, X, share=0.3):
    return np.where(rng.random(X.shape) < share, np.nan, X)


def tables():
    rng = np.random.default_rng(0)
    yield "fewer rows than columns", with_missing(rng, signal(rng, 5, 40, 2)), 2
    yield "huge offset", with_missing(rng, signal(rng, 100, 8, 2) + 1e8), 2
    yield (
        "scales from 1e-6 to 10",
        with_missing(rng, signal(rng, 200, 8, 2) * 10.0 ** np.arange(-6, 2)),
        2,
    )
    X = with_missing(rng, signal(rng, 100, 6, 2))
    X[:, 3] = np.where(np.isnan(X[:, 3]), np.nan, 7.0)
    yield "a constant column", X, 2
    X = with_missing(rng, signal(rng, 100, 6, 2))
    X[1:, 2] = np.nan
    X[0, 2] = 1.0
    yield "a column with one seen cell", X, 2
    X = signal(rng, 100, 4, 2)
    yield "every column twice", with_missing(rng, np.hstack([X, X])), 2
    yield "no noise, right rank", with_missing(rng, signal(rng, 100, 10, 2, 0.0)), 2
    yield "no noise, rank too large", with_missing(rng, signal(rng, 100, 10, 2, 0.0)), 4
    yield "nine tenths missing, rank too large", with_missing(rng, signal(rng, 300, 20, 2), 0.9), 10
    yield "as many components as columns", with_missing(rng, signal(rng, 100, 5, 2)), 5
    yield "one column", with_missing(rng, signal(rng, 100, 1, 1)), 1
    yield "two rows", np.array([[1.0, np.nan, 3.0], [2.0, 1.0, np.nan]]), 1
    X = signal(rng, 200, 6, 2)
    X[100:, 3:] = np.nan
    X[:100, :3] = np.nan
    yield "columns never seen together", X, 2
    X = with_missing(rng, signal(rng, 200, 6, 2))
    X[5, 2] = 1e12
    yield "an outlier of 1e12", X, 2
    yield (
        "float32 far from 0",
        (with_missing(rng, signal(rng, 200, 6, 2)) + 1e4).astype(np.float32),
        2,
    )
    yield "rare counts", with_missing(rng, rng.poisson(0.05, size=(300, 12)) * 1.0), 3


@pytest.mark.parametrize(("name", "X", "q"), [pytest.param(*t, id=t[0]) for t in tables()])
@pytest.mark.parametrize("make", [eg.PCA, eg.PPCA, eg.FactorAnalysis])
def test_ugly_tables_are_fitted_and_filled(make, name, X, q):
    model = make(q, max_iter=150, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)  # 150 steps are few for some
        warnings.simplefilter("ignore", eg.exceptions.NoiseFloorWarning)
        warnings.simplefilter("ignore", eg.exceptions.UnitsWarning)
        warnings.simplefilter("ignore", eg.exceptions.FewCellsWarning)
        warnings.simplefilter("ignore", eg.exceptions.ConstantColumnWarning)
        warnings.simplefilter("ignore", eg.exceptions.UnlinkedColumnsWarning)
        model.fit(X)
        filled, sd = model.impute(X, return_std=True)
        outputs = [model.transform(X), filled, sd, model.score_samples(X), model.reconstruct(X)]
    assert all(np.isfinite(output).all() for output in outputs)
    observed = ~np.isnan(X)
    np.testing.assert_array_equal(filled[observed], X[observed])
    objective = model.trace_.objective
    # The fit adds up densities of standardised columns; the Jacobian comes off at the end.
    sd = np.nanstd(X.astype(np.float64), axis=0)
    jacobian = float(np.sum(observed, axis=0) @ np.abs(np.log(np.where(sd > 0, sd, 1.0))))
    slack = 1e-9 * np.maximum(np.abs(objective[:-1]) + jacobian, observed.sum())
    assert np.all(np.diff(objective) >= -slack)


@pytest.mark.parametrize("make", [eg.PCA, eg.PPCA, eg.FactorAnalysis])
@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize(("size", "words"), [(1e200, "overflow"), (1e-200, "underflow")])
def test_sizes_beyond_floating_point_are_refused(make, gap, size, words):
    X = np.random.default_rng(1).normal(size=(50, 4)) * size
    if gap:
        X[3, 2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=words):
            make(2).fit(X)


@pytest.mark.parametrize("make", [eg.PCA, eg.PPCA, eg.FactorAnalysis])
@pytest.mark.parametrize("gap", [False, True])
def test_a_constant_table_has_no_variance_to_explain(make, gap):
    X = np.full((20, 3), 2.5)
    if gap:
        X[3, 2] = np.nan
    with pytest.warns(UserWarning, match="no variance"):
        model = make(1).fit(X)
    np.testing.assert_array_equal(model.explained_variance_ratio_, [0.0])
    np.testing.assert_array_equal(model.impute(X), np.full((20, 3), 2.5))
    np.testing.assert_array_equal(model.transform(X), np.zeros((20, 1)))


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("model", [eg.PCA(2, scale=True), eg.FactorAnalysis(2)])
def test_a_column_too_small_to_be_scaled_is_refused(model, gap):
    X = np.random.default_rng(3).normal(size=(50, 4)) * [1, 1, 1, 1e-165]
    if gap:
        X[3, 2] = np.nan
    with pytest.raises(ValueError, match="underflows in column 3"):
        model.fit(X)


def test_no_d_by_d_matrix_is_formed_by_em():
    """A row of 30 000 features: d x d would be 7 GB."""
    import tracemalloc

    rng = np.random.default_rng(2)
    X = with_missing(rng, signal(rng, 12, 30_000, 1), 0.1)
    tracemalloc.start()
    model = eg.PPCA(2, max_iter=5, tol=1e-2).fit(X)
    model.impute(X)
    model.score_samples(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * X.nbytes
